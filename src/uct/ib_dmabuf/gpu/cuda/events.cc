// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_vendor.h"
#include <climits>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/ucx/ucs.h>

namespace ucx_ib_dmabuf {

bool cuda_vendor::may_be_device(uintptr_t address, size_t length) const noexcept
{
    // UCX's cache of memory types gets the same events.
    return !events_complete_ || may_be_allocated(address, length);
}

// UCM calls this in the thread that allocates or releases, before the driver
// releases.
static void on_event(ucm_event_type_t type, ucm_event_t *event,
                     void *arg) noexcept
{
    auto &told         = *static_cast<gpu_vendor::listener *>(arg);
    const auto &memory = event->mem_type;
    const auto address = reinterpret_cast<uintptr_t>(memory.address);

    if (cuda_event_is_of_old_memory()) {
        return; // only for UCX's cache of memory types
    }
    if (cuda_event_is_everything(*event)) {
        told.on_change(0, SIZE_MAX);
    } else if (memory.mem_type != UCS_MEMORY_TYPE_HOST) {
        (type == UCM_EVENT_MEM_TYPE_FREE)
            ? told.on_release(address, memory.size)
            : told.on_change(address, memory.size);
    }
}

void cuda_vendor::watch(listener &told) noexcept
{
    constexpr int events = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
    // Runs before UCX's own caches, which have priority 0.
    constexpr int priority = INT_MIN / 2;

    told_ = &told;
    // Installs UCX's own hooks first, then ours for the rest. NO_INSTALL: the
    // handler is needed even if UCX cannot install its own.
    cuda_events_install();
    if (all_ucm().empty() || (all_ucm().front()->set_event_handler(
                                  events | UCM_EVENT_FLAG_NO_INSTALL, priority,
                                  on_event, told_) != UCS_OK)) {
        told.on_events_missed("UCX refuses a handler of its events");
        return;
    }
    events_complete_ = true;
    cuda_events_on_incomplete(
        [](const char *why, void *arg) {
            auto *self             = static_cast<cuda_vendor *>(arg);
            self->events_complete_ = false;
            self->told_->on_events_missed(why);
        },
        this);
    cuda_events_on_out_of_memory(
        [](void *arg) {
            return static_cast<listener *>(arg)->on_out_of_memory();
        },
        told_);
}

} // namespace ucx_ib_dmabuf
