// SPDX-License-Identifier: BSD-3-Clause
//
// Remote keys of a memory domain's handles, and their invalidation.
#include "memory_domain.h"
#include <algorithm>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

void memory_domain::dereg(handle_keys *keys) noexcept
{
    memh *handle = static_cast<memh *>(keys);

    // In a forked child the registration is the parent's, and stays.
    registration *own = handle->own;
    if ((own != nullptr) && (own->process == getpid())) {
        nic_.dereg(own);
    }
    cache_.put(handle->used, handle->address, handle->length);
    delete handle;
}

// Registers only the pages of the handle's range, for that handle alone, until
// dereg(). Evicts idle regions. Returns nullptr on failure (logged).
registration *memory_domain::reg_alone(const memh &handle)
{
    gpu_vendor &gpu      = shared_.gpu();
    const uintptr_t mask = gpu.granularity() - 1;
    const region &around = *handle.used;
    const uintptr_t low  = std::max(handle.address & ~mask, around.address);
    const uintptr_t high =
        std::min((handle.address + handle.length + mask) & ~mask,
                 around.address + around.length);
    registration *own = nullptr;
    allocation found;

    if (gpu.describe(handle.address, &found) != UCS_OK) {
        return nullptr;
    }
    dmabuf_exports memory(gpu, low, high - low,
                          gpu.before(low, found.in_chunks));
    const auto attempt = [&] {
        return nic_.methods().reg({memory, found.device, low, high - low},
                                  &own);
    };
    ucs_status_t status = attempt();
    for (auto make_room :
         {&rcache::evict_all_idle, &rcache::ask_others_for_room}) {
        if (lacks_room(status) && (cache_.*make_room)()) {
            status = attempt();
        }
    }
    if (status == UCS_OK) {
        own->process = getpid();
    }
    return own;
}

// For a user that may invalidate its remote key: the region's key would stay
// valid while others use the region.
bool memory_domain::ensure_own_registration(memh *handle)
{
    registration *own = handle->own;

    if (own != nullptr) {
        return true;
    }
    registration *made = reg_alone(*handle);
    if (made == nullptr) {
        return false;
    }
    if (!handle->own.compare_exchange_strong(own, made)) {
        nic_.dereg(made); // another thread was faster
        return true;
    }
    log_trace("ib_dmabuf: %s: %zu bytes at 0x%zx have a registration of their "
              "own, 0x%x, to be invalidated",
              nic_.name(), handle->length, handle->address, made->rkey);
    return true;
}

// uct_ib's packed keys contain more than the handle's keys.
ucs_status_t memory_domain::pack(const pack_request &request,
                                 void *buffer) noexcept
{
    memh *handle     = static_cast<memh *>(request.handle);
    const bool alone = request.to_be_invalidated();

    if (alone && !ensure_own_registration(handle)) {
        return UCS_ERR_NO_RESOURCE;
    }
    const std::lock_guard<std::mutex> guard(nic_.packing());
    if (cache_.is_revoked(handle->used)) {
        log_debug("ib_dmabuf: %s: the memory at 0x%zx was released: it has no "
                  "remote key",
                  nic_.name(), handle->address);
        return UCS_ERR_NO_ELEM;
    }
    const registration *packed =
        alone ? handle->own.load() : md_registrar::behind(*handle->used);
    return original_.pack(request, packed->handle, buffer);
}

} // namespace ucx_ib_dmabuf
