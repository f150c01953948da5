// SPDX-License-Identifier: BSD-3-Clause
#include "vendor.h"
#include "../../../ucm/cuda_events.h"
#include "../report.h"
#include "bar1.h"
#include "copy.h"
#include "export.h"
#include "range.h"
#include <atomic>
#include <climits>
#include <ucs/memory/memtype_cache.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

class cuda_vendor final : public gpu_vendor {
public:
    explicit cuda_vendor(const driver &cuda)
        : cuda_(cuda), page_size_(static_cast<size_t>(sysconf(_SC_PAGESIZE)))
    {
    }

    ucs_status_t describe(uintptr_t address, size_t length,
                          extent *out) override;
    bool is_current(uintptr_t address, size_t length,
                    uint64_t identity) override
    {
        return cuda_is_current(cuda_, address, length, identity);
    }
    ucs_status_t export_range(uintptr_t address, size_t length, int *fd,
                              size_t *offset) override
    {
        *offset = 0;
        return cuda_export_dmabuf(cuda_, address, length, fd);
    }
    size_t granularity() const override { return page_size_; }

    const char *name() const noexcept override { return "CUDA"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_CUDA;
    }
    bool may_be_device(uintptr_t address,
                       size_t length) const noexcept override;
    size_t max_registered(int device) override
    {
        return cuda_bar1_budget(cuda_, device);
    }
    ucs_status_t copy_to_host(void *host, uintptr_t device,
                              size_t length) override
    {
        return cuda_copy_to_host(cuda_, host, device, length);
    }
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override
    {
        return cuda_copy_from_host(cuda_, device, host, length);
    }
    void watch(listener &told) noexcept override;
    void refresh_events() noexcept override { cuda_events_refresh(); }

private:
    static void on_event(ucm_event_type_t type, ucm_event_t *event,
                         void *arg) noexcept;

    const driver &cuda_;
    const size_t page_size_;
    listener *told_ = nullptr;
    std::atomic<bool> events_complete_{false};
};

ucs_status_t cuda_vendor::describe(uintptr_t address, size_t length,
                                   extent *out)
{
    cuda_memory memory;
    ucs_status_t status = cuda_describe(cuda_, address, length, &memory);

    if (status != UCS_OK) {
        return status;
    }
    if (memory.type != cuda_memory::kind::device) {
        return UCS_ERR_NO_ELEM; // as any host memory
    }
    out->base       = memory.base;
    out->size       = memory.size;
    out->identity   = memory.identity;
    out->device     = memory.device;
    out->exportable = true; // export_range() tells
    return UCS_OK;
}

bool cuda_vendor::may_be_device(uintptr_t address, size_t length) const noexcept
{
    ucs_memory_info_t info;

    // UCX's cache of memory types sees the same events. Some 30 ns.
    return !events_complete_ ||
           (ucs_memtype_cache_lookup(reinterpret_cast<void *>(address), length,
                                     &info) != UCS_ERR_NO_ELEM);
}

// Called by UCM in the thread that allocates or releases, before the driver
// releases.
void cuda_vendor::on_event(ucm_event_type_t, ucm_event_t *event,
                           void *arg) noexcept
{
    listener &told = *static_cast<cuda_vendor *>(arg)->told_;

    if (cuda_event_is_everything(*event)) {
        told.on_change(0, SIZE_MAX);
    } else if (event->mem_type.mem_type != UCS_MEMORY_TYPE_HOST) {
        told.on_change(reinterpret_cast<uintptr_t>(event->mem_type.address),
                       event->mem_type.size);
    }
}

void cuda_vendor::watch(listener &told) noexcept
{
    constexpr int events = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
    // Before UCX's own caches, which have priority 0.
    constexpr int priority = INT_MIN / 2;

    told_ = &told;
    // UCX's own hooks first, ours where it has none. NO_INSTALL: the handler
    // is wanted even where UCX cannot install its own.
    cuda_events_install();
    if (ucm_set_event_handler(events | UCM_EVENT_FLAG_NO_INSTALL, priority,
                              on_event, this) != UCS_OK) {
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
}

} // namespace

std::unique_ptr<gpu_vendor> find_cuda()
{
    const driver *cuda = driver::get();
    text why;

    if (cuda == nullptr) {
        return nullptr;
    }
    if (!cuda_can_export(*cuda, &why)) {
        warn_once("no GPU exports",
                  format("%s. Messages in GPU memory are staged through host "
                         "memory",
                         why.c_str()));
        return nullptr;
    }
    return std::make_unique<cuda_vendor>(*cuda);
}

} // namespace ucx_ib_dmabuf
