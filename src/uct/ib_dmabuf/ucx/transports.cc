// SPDX-License-Identifier: BSD-3-Clause
//
// A memory domain sees no completions: a transport reports a failed endpoint to
// the handler that UCP passes to iface_open. The plug-in's handler precedes it.
#include "md_table.h"
#include "ucx_instance.h"
#include "versions.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <uct/ib_dmabuf/fork.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

// The internal operations of a transport's interfaces, with the estimate
// corrected by which UCP chooses a protocol. Interfaces point to it.
struct estimates {
    std::array<void *, 32> ops{}; // must be first; the number differs
    void *original                   = nullptr; // null: not where expected
    estimate_perf_function *estimate = nullptr;
};

// For a blocking send, UCP counts the time until the buffer is free again. So
// it neglects that the receiver of an eager message copies it into GPU memory,
// and prefers eager messages of some megabytes. The rate of that copy is UCX's
// own (UCX_CUDA_COPY_BW, host to device).
ucs_status_t estimate_perf(uct_iface_h iface, uct_perf_attr_t *attr) noexcept
{
    constexpr double copies   = 8300.0 * (1 << 20); // bytes a second
    constexpr uint64_t needed = uct_perf_attr_t::field_operation |
                                uct_perf_attr_t::field_local_memory_type |
                                uct_perf_attr_t::field_bandwidth;
    const auto *self = static_cast<const estimates *>(iface->internal_ops);
    const ucs_status_t status = self->estimate(iface, attr);

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

// Reads the interface's operations. Calls the loader.
estimates estimates_of(const ucx_instance &instance, uct_iface_h iface)
{
    const bool is_second =
        instance.uct_ib().symbol(sign_of_iface_query_v2) != nullptr;
    estimates result;

    read_table(static_cast<void **>(iface->internal_ops), result.ops);
    void *&op = result.ops[is_second ? 1 : 0];
    if (!instance.owns(op)) {
        return {};
    }
    result.original = iface->internal_ops;
    result.estimate = reinterpret_cast<estimate_perf_function *>(
        std::exchange(op, reinterpret_cast<void *>(estimate_perf)));
    return result;
}

// A transport with iface_open replaced. UCX unloads none.
struct watched_transport {
    const uct_component_t *component;
    const uct_tl_t *tl;
    iface_open_function *open; // the original
    estimates corrected;
};

std::mutex mutex;
std::array<watched_transport, 64> transports;
size_t transport_count;

// Local protection errors are UCS_ERR_IO_ERROR. Requests flushed after an error
// or a peer's failed access are UCS_ERR_CANCELED. The peer or network causes
// other errors (uct_ib_wc_to_ucs_status(), uct_ib_mlx5_completion_with_err()).
ucs_status_t on_failure(void *arg, uct_ep_h ep, ucs_status_t status) noexcept
{
    const auto &to = *static_cast<failure_handler *>(arg);

    if ((status == UCS_ERR_IO_ERROR) || (status == UCS_ERR_CANCELED)) {
        to.of->failed(status);
    }
    return to.handler(to.arg, ep, status);
}

// Returns the transport of an interface, chosen as in uct_iface_open().
watched_transport *transport_of(const uct_component_t *component,
                                const uct_iface_params_t &params)
{
    const std::lock_guard<std::mutex> guard(mutex);
    const bool any = (params.open_mode & params.mode_device) == 0;

    for (size_t i = 0; i < transport_count; ++i) {
        watched_transport &one = transports[i];
        if ((one.component == component) &&
            (any || (strncmp(one.tl->name, params.mode.device.tl_name,
                             sizeof(one.tl->name)) == 0))) {
            return &one;
        }
    }
    return nullptr;
}

// Returns one handler per worker and domain, nullptr if out of memory.
failure_handler *remember(md_table &of, const failure_handler &wanted) noexcept
try {
    const std::lock_guard<std::mutex> guard(mutex);

    for (failure_handler &each : of.handlers) {
        if (each == wanted) {
            return &each;
        }
    }
    return &of.handlers.emplace_front(wanted);
} catch (const std::bad_alloc &) {
    return nullptr;
}

// Returns nullptr if UCP passes no handler, if the domain has uct_ib's
// operations, or if a newer UCX sets fields that would not be passed on.
failure_handler *handler_before(uct_md_h md, const uct_iface_params_t &params)
{
    md_table *const of    = md_table::find(md);
    const uint64_t fields = params.field_mask;

    if ((of == nullptr) || ((fields & params.field_err_handler) == 0) ||
        (params.err_handler == nullptr) ||
        ((fields & ~uint64_t{params.known_fields}) != 0)) {
        return nullptr;
    }
    const bool has_arg = (fields & params.field_err_handler_arg) != 0;
    return remember(*of, {params.err_handler,
                          has_arg ? params.err_handler_arg : nullptr,
                          of->user.get()});
}

ucs_status_t iface_open(uct_md_h md, void *worker, const void *params,
                        const void *config, uct_iface_h *iface) noexcept
{
    const auto &theirs = *static_cast<const uct_iface_params_t *>(params);
    watched_transport *const of = transport_of(md->component, theirs);

    if (of == nullptr) {
        return UCS_ERR_NO_DEVICE; // as uct_iface_open()
    }
    uct_iface_params_t ours; // UCX copies what it stores
    if (failure_handler *const before = handler_before(md, theirs)) {
        ours = theirs;
        ours.field_mask |= ours.field_err_handler_arg;
        ours.err_handler     = on_failure;
        ours.err_handler_arg = before;
        params               = &ours;
    }
    const ucs_status_t status = of->open(md, worker, params, config, iface);
    const md_table *table     = md_table::find(md);
    if ((status == UCS_OK) && (table != nullptr)) {
        std::unique_lock<std::mutex> guard(mutex);
        if (of->corrected.original == nullptr) {
            guard.unlock();
            const auto found = estimates_of(table->original.instance(), *iface);
            guard.lock();
            if (of->corrected.original == nullptr) { // nor by another thread
                of->corrected = found;
            }
        }
        if ((of->corrected.original != nullptr) &&
            ((*iface)->internal_ops == of->corrected.original)) {
            (*iface)->internal_ops = &of->corrected;
        }
    }
    return status;
}

// Calls neither UCX nor the loader, as it holds the lock.
void replace_open(const uct_component_t *component, uct_tl_t *tl)
{
    const std::lock_guard<std::mutex> guard(mutex);

    if ((tl->iface_open == iface_open) ||
        (transport_count == transports.size()) ||
        !is_writable(&tl->iface_open)) {
        return;
    }
    transports[transport_count++] = {component, tl, tl->iface_open, {}};
    std::atomic_ref(tl->iface_open).store(iface_open);
}

} // namespace

// Called after each opened domain, as libraries that UCX loads later add
// transports. Another version may have anything in the list.
void override_transports(const ucx_instance &of)
{
    at_fork<&mutex>();
    const uct_component_t *const component = of.component();
    const ucs_list_link_t *const head      = &component->tl_list;
    ucs_list_link_t link{};
    size_t count = 0;

    for (bool more = read_memory(head, &link);
         more && (link.next != head) && (count < transports.size()); ++count) {
        auto *const tl = reinterpret_cast<uct_tl_t *>(
            reinterpret_cast<char *>(link.next) - offsetof(uct_tl_t, list));
        iface_open_function *its_own = nullptr;

        more = read_memory(link.next, &link) &&
               read_memory(&tl->iface_open, &its_own);
        if (more && (its_own != iface_open) &&
            of.owns(reinterpret_cast<const void *>(its_own))) {
            replace_open(component, tl);
        }
    }
}

} // namespace ucx_ib_dmabuf
