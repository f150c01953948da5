// SPDX-License-Identifier: BSD-3-Clause
#include "component.h"
#include <algorithm>
#include <climits>
#include <cstring>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf {
namespace {

// The values of UCX's own cuda_copy, by which UCP chooses its protocols.
constexpr double latency   = 8e-6;                // seconds
constexpr double bandwidth = 10000.0 * (1 << 20); // bytes a second

constexpr uct_iface_attr_t::rma any_length{UINT_MAX, 0, 0, SIZE_MAX, 1, 1, 1};

void *at(uint64_t address)
{
    return reinterpret_cast<void *>(address);
}

// Refuses host to host as UCX's own cuda_copy does. Otherwise UCP would choose
// this transport for host memory that a process sends to itself.
ucs_status_t estimate_perf(uct_iface_h iface, uct_perf_attr_t *attr) noexcept
{
    constexpr uint64_t both = uct_perf_attr_t::field_memory_types;

    return (((attr->field_mask & both) == both) &&
            (attr->local_memory_type == UCS_MEMORY_TYPE_HOST) &&
            (attr->remote_memory_type == UCS_MEMORY_TYPE_HOST))
               ? UCS_ERR_UNSUPPORTED
               : cuda_copy_component::of(iface->md).base_estimate_perf(iface,
                                                                       attr);
}

ucs_status_t iface_query(uct_iface_h iface, uct_iface_attr_t *attr) noexcept
{
    const ucs_status_t status =
        cuda_copy_component::of(iface->md).self_query(iface, attr);

    if (status != UCS_OK) {
        return status;
    }
    attr->put = attr->get = any_length;
    memset(attr->am, 0, sizeof(attr->am)); // no active messages
    memset(attr->atomics, 0, sizeof(attr->atomics));
    attr->flags = iface_flag_connect_to_iface | iface_flag_pending |
                  iface_flag_put_short | iface_flag_get_short |
                  iface_flag_put_zcopy | iface_flag_get_zcopy;
    attr->overhead            = 0;
    attr->dedicated_bandwidth = 0;
    attr->shared_bandwidth    = bandwidth;
    attr->latency             = latency;
    attr->latency_growth      = 0;
    return UCS_OK;
}

ucs_status_t put_short(uct_ep_h ep, const void *buffer, unsigned length,
                       uint64_t remote, uct_rkey_t) noexcept
{
    return cuda_copy_component::of(ep).user->copy(at(remote), buffer, length,
                                                  at(remote));
}

ucs_status_t get_short(uct_ep_h ep, void *buffer, unsigned length,
                       uint64_t remote, uct_rkey_t) noexcept
{
    return cuda_copy_component::of(ep).user->copy(buffer, at(remote), length,
                                                  at(remote));
}

// The copy is complete on return, so the completion is not used.
ucs_status_t put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t count,
                       uint64_t remote, uct_rkey_t, uct_completion_t *) noexcept
{
    return (count == 0) ? UCS_OK
                        : cuda_copy_component::of(ep).user->copy(
                              at(remote), iov->buffer, iov->length, at(remote));
}

ucs_status_t get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t count,
                       uint64_t remote, uct_rkey_t, uct_completion_t *) noexcept
{
    return (count == 0) ? UCS_OK
                        : cuda_copy_component::of(ep).user->copy(
                              iov->buffer, at(remote), iov->length, at(remote));
}

} // namespace

ucs_status_t cuda_copy_iface_open(uct_md_h md, void *worker, const void *params,
                                  const void *config,
                                  uct_iface_h *iface) noexcept
{
    cuda_copy_component &self = cuda_copy_component::of(md);
    const ucs_status_t status =
        self.self_tl->iface_open(md, worker, params, config, iface);

    if (status == UCS_OK) {
        void **ops = (*iface)->ops;
        self.self_query =
            reinterpret_cast<iface_query_function *>(ops[op_iface_query]);
        ops[op_iface_query] = reinterpret_cast<void *>(iface_query);
        ops[op_put_short]   = reinterpret_cast<void *>(put_short);
        ops[op_get_short]   = reinterpret_cast<void *>(get_short);
        ops[op_put_zcopy]   = reinterpret_cast<void *>(put_zcopy);
        ops[op_get_zcopy]   = reinterpret_cast<void *>(get_zcopy);
        // The number of operations and the index of the estimate differ.
        read_table(static_cast<void **>((*iface)->internal_ops),
                   self.internal_ops);
        std::ranges::replace(self.internal_ops,
                             reinterpret_cast<void *>(self.base_estimate_perf),
                             reinterpret_cast<void *>(estimate_perf));
        (*iface)->internal_ops = self.internal_ops;
    }
    return status;
}

} // namespace ucx_ib_dmabuf
