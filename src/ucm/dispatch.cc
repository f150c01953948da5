// SPDX-License-Identifier: BSD-3-Clause
#include "dispatch.h"
#include "release.h"
#include <optional>
#include <span>

namespace ucx_ib_dmabuf::ucm {

namespace {

// Without a type UCX queries the driver. If UCP cannot have registered released
// memory, a UCX without CUDA is only made to query the type again.
void dispatch(std::span<const ucm_functions *const> copies,
              ucm_event_type_t type, uint64_t address, size_t size,
              std::optional<ucs_memory_type_t> memory_type, bool kept = true)
{
    check_hooks();
    if (copies.empty()) {
        return;
    }
    // The handlers may free memory, and the hooks then call this again.
    const bool nested      = this_thread.announcing;
    this_thread.announcing = true;
    for (const ucm_functions *ucm : copies) {
        const bool hears = kept || ucm->has_cuda;
        const auto known = memory_type.value_or(ucm->unknown_type);
        ucm_event_t event{};
        event.mem_type.address  = reinterpret_cast<void *>(address);
        event.mem_type.size     = size;
        event.mem_type.mem_type = hears ? known : ucm->unknown_type;
        event.mem_type.sys_dev  = 255; // unknown
        ucm->event_enter();
        ucm->event_dispatch(hears ? type : UCM_EVENT_MEM_TYPE_ALLOC, &event);
        ucm->event_leave();
    }
    this_thread.announcing = nested;
}

} // namespace

void dispatch_free(uint64_t address, size_t size, ucs_memory_type_t type,
                   bool kept)
{
    dispatch(all_ucm(), UCM_EVENT_MEM_TYPE_FREE, address, size, type, kept);
}

void dispatch_allocation(uint64_t address, size_t size,
                         std::optional<ucs_memory_type_t> type)
{
    dispatch(all_ucm(), UCM_EVENT_MEM_TYPE_ALLOC, address, size, type);
}

void pass_on(ucm_event_type_t type, const ucm_event_t &event)
{
    const auto said     = event.mem_type.mem_type;
    const auto address  = reinterpret_cast<uint64_t>(event.mem_type.address);
    const bool released = type == UCM_EVENT_MEM_TYPE_FREE;

    dispatch(all_ucm().subspan(1), type, address, event.mem_type.size,
             (said == our_ucm().unknown_type) ? std::nullopt
                                              : std::optional(said),
             !released || take_registered(address, event.mem_type.size) ||
                 (said == UCS_MEMORY_TYPE_HOST));
}

} // namespace ucx_ib_dmabuf::ucm
