// SPDX-License-Identifier: BSD-3-Clause
#include "estimates.h"
#include "library.h"
#include "ucx_instance.h"
#include "versions.h"
#include <algorithm>
#include <utility>

namespace ucx_ib_dmabuf {

// For a blocking send, UCP counts the time until the buffer is free again. So
// it neglects that the receiver of an eager message copies it into GPU memory,
// and prefers eager messages of some megabytes. The rate of that copy is UCX's
// own (UCX_CUDA_COPY_BW, host to device).
ucs_status_t estimates::estimate_perf(uct_iface_h iface,
                                      uct_perf_attr_t *attr) noexcept
{
    constexpr double copies   = 8300.0 * (1 << 20); // bytes a second
    constexpr uint64_t needed = uct_perf_attr_t::field_operation |
                                uct_perf_attr_t::field_local_memory_type |
                                uct_perf_attr_t::field_bandwidth;
    const auto *self = static_cast<const estimates *>(iface->internal_ops);
    const ucs_status_t status = self->estimate_(iface, attr);

    if ((status == UCS_OK) && ((attr->field_mask & needed) == needed) &&
        (attr->operation == UCT_EP_OP_AM_ZCOPY) &&
        (attr->local_memory_type == UCS_MEMORY_TYPE_CUDA)) {
        attr->bandwidth.dedicated = std::min(attr->bandwidth.dedicated, copies);
        attr->bandwidth.shared    = std::min(attr->bandwidth.shared, copies);
        if ((attr->field_mask & attr->field_path_bandwidth) != 0) {
            attr->path_bandwidth.shared =
                std::min(attr->path_bandwidth.shared, copies);
        }
    }
    return status;
}

estimates estimates::of(const ucx_instance &instance, uct_iface_h iface)
{
    const bool is_second =
        instance.uct_ib().symbol(sign_of_iface_query_v2) != nullptr;
    estimates result;
    uct_iface_t known{};

    if (!read_memory(iface, &known)) {
        return {};
    }
    read_table(static_cast<void **>(known.internal_ops), result.ops_);
    void *&op = result.ops_[is_second ? 1 : 0];
    if (!instance.owns(op)) {
        return {};
    }
    result.original_ = known.internal_ops;
    result.estimate_ = reinterpret_cast<estimate_perf_function *>(
        std::exchange(op, reinterpret_cast<void *>(estimate_perf)));
    return result;
}

void estimates::use_in(uct_iface_h iface)
{
    if ((original_ != nullptr) && (iface->internal_ops == original_)) {
        iface->internal_ops = this;
    }
}

} // namespace ucx_ib_dmabuf
