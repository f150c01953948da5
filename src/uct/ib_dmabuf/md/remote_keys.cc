// SPDX-License-Identifier: BSD-3-Clause
//
// Remote keys of a memory domain's handles, and what ends with them.
#include "../host/log.h"
#include "memory_domain.h"

namespace ucx_ib_dmabuf {

// The completion is told at once, unless the handle's remote key is the
// region's: that one dies with the region's last user.
void memory_domain::dereg(handle_keys *keys,
                          uct_completion_t *completion) noexcept
{
    memh *handle       = static_cast<memh *>(keys);
    const region *used = handle->used;
    registration *own  = handle->own;

    if (own != nullptr) {
        device_.dereg_alone(own);
    }
    if (handle->staged) {
        if (completion != nullptr) {
            handle->staged->invalidate();
        }
        device_.unstage(handle);
    } else if ((completion != nullptr) && handle->shares_key &&
               !original_.registers_dmabuf()) {
        device_.notify_invalidated(handle, completion);
        cache_.invalidate(used->address, used->length);
        cache_.put(used);
        return;
    } else {
        delete handle;
        cache_.put(used);
    }
    if (completion != nullptr) {
        invoke_completion(completion);
    }
}

// The remote key for a user that may invalidate it: the region's would stay
// valid for as long as others use the region, so it gets one of its own. Where
// that fails it is the region's all the same, as UCP ends the process if there
// is none (ucp_rndv_rts_pack).
uint32_t memory_domain::key_of_its_own(memh *handle)
{
    registration *own = handle->own;

    if (own == nullptr) {
        registration *made = device_.reg_alone(*handle);
        if (made == nullptr) {
            log_debug("ib_dmabuf: %s: %zu bytes at 0x%zx have no key of their "
                      "own: an invalidation waits for the others' users",
                      device_.name(), handle->length, handle->address);
            handle->shares_key = true;
            return handle->rkey(original_.layout());
        }
        if (handle->own.compare_exchange_strong(own, made)) {
            log_trace("ib_dmabuf: %s: %zu bytes at 0x%zx have a key of their "
                      "own, 0x%x, to be invalidated",
                      device_.name(), handle->length, handle->address,
                      made->rkey);
            own = made;
        } else { // another thread was faster
            device_.dereg_alone(made);
        }
    }
    return own->rkey;
}

// uct_ib's own keys have more in them. Those that are to be invalidated must be
// invalid when dereg() returns: there is none but of a registration for this
// handle alone.
ucs_status_t memory_domain::pack_by_uct_ib(memh *handle,
                                           const pack_request &request,
                                           void *buffer)
{
    const bool alone = request.to_be_invalidated();

    if (alone) {
        key_of_its_own(handle);
        if (handle->own == nullptr) {
            return UCS_ERR_NO_RESOURCE;
        }
    }
    const std::lock_guard<std::mutex> guard(device_.packing());
    if (cache_.is_revoked(handle->used)) {
        log_debug("ib_dmabuf: %s: the memory at 0x%zx was released: it has no "
                  "remote key",
                  device_.name(), handle->address);
        return UCS_ERR_NO_ELEM;
    }
    const registration *packed =
        alone ? handle->own.load() : device_.behind(*handle);
    return original_.pack(request, packed->original, buffer);
}

ucs_status_t memory_domain::pack(const pack_request &request,
                                 void *buffer) noexcept
{
    memh *handle = static_cast<memh *>(request.handle);
    if (original_.registers_dmabuf()) {
        return pack_by_uct_ib(handle, request, buffer);
    }
    uint32_t rkey = handle->rkey(original_.layout());

    if (handle->staged) {
        // Only this operation's in any case.
    } else if (request.to_be_invalidated()) {
        rkey = key_of_its_own(handle);
    } else {
        handle->shares_key = true;
    }
    // Atomics use the same key.
    pack_rkey(rkey, handle_keys::invalid, buffer);
    return UCS_OK;
}

} // namespace ucx_ib_dmabuf
