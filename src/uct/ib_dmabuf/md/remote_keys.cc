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

    // In a forked child the registrations are the parent's, and stay.
    for (registration *own = handle->own; own != nullptr;) {
        registration *const next = own->next;
        if (own->process == getpid()) {
            nic_.dereg(own);
        }
        own = next;
    }
    cache_.put(handle->used, handle->address, handle->length);
    delete handle;
}

// Registers only the pages of these bytes, for one handle alone, until dereg().
// Evicts idle regions. Returns nullptr on failure (logged).
registration *memory_domain::reg_alone(const region &around,
                                       address_range bytes)
{
    gpu_vendor &gpu = shared_.gpu();
    const address_range pages =
        intersection(aligned(bytes, gpu.granularity()),
                     make_range(around.address, around.length));
    registration *own = nullptr;
    allocation found;

    if (gpu.describe(bytes.lo, &found) != UCS_OK) {
        return nullptr;
    }
    dmabuf_exports memory(gpu, pages.lo, pages.size(),
                          gpu.before(pages.lo, found.in_chunks));
    const auto attempt = [&] {
        return nic_.methods().reg(
            {memory, found.device, pages.lo, pages.size()}, &own);
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
registration *memory_domain::own_registration(memh *handle, address_range bytes)
{
    constexpr size_t max_parts = 8; // then one for the whole handle
    registration *first = handle->own, *made = nullptr;
    do {
        size_t parts = 0;
        for (registration *own = first; own != nullptr; own = own->next) {
            ++parts;
            if (make_range(own->address, own->length).covers(bytes)) {
                if (made != nullptr) { // another thread was faster
                    nic_.dereg(made);
                }
                return own;
            }
        }
        // Ranges that overlap may be many.
        if ((made == nullptr) && (parts >= max_parts)) {
            made = reg_alone(*handle->used,
                             make_range(handle->address, handle->length));
        }
        made = (made == nullptr) ? reg_alone(*handle->used, bytes) : made;
        if (made == nullptr) {
            return nullptr;
        }
        made->next = first;
    } while (!handle->own.compare_exchange_weak(first, made));
    log_trace("ib_dmabuf: %s: %zu bytes at 0x%zx have a registration of their "
              "own, 0x%x, to be invalidated",
              nic_.name(), bytes.size(), bytes.lo, made->rkey);
    return made;
}

// uct_ib's packed keys contain more than the handle's keys.
ucs_status_t memory_domain::pack(const pack_request &request,
                                 void *buffer) noexcept
{
    memh *handle         = static_cast<memh *>(request.handle);
    const bool alone     = request.to_be_invalidated();
    registration *packed = nullptr;

    if (alone) {
        // UCT may pass a larger range than the handle's.
        packed = own_registration(
            handle, intersection(
                        make_range(handle->address, handle->length),
                        make_range(reinterpret_cast<uintptr_t>(request.address),
                                   request.length)));
        if (packed == nullptr) {
            return UCS_ERR_NO_RESOURCE;
        }
    }
    const std::lock_guard<std::mutex> guard(nic_.packing());
    if (cache_.is_revoked(handle->used)) {
        log_debug("ib_dmabuf: %s: the memory at 0x%zx was released: it has no "
                  "remote key",
                  nic_.name(), handle->address);
        return UCS_ERR_NO_ELEM;
    }
    if (!alone) {
        packed = md_registrar::behind(*handle->used);
    }
    return original_.pack(request, packed->handle, buffer);
}

} // namespace ucx_ib_dmabuf
