// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_HIT_H_
#define UCX_IB_DMABUF_CACHE_HIT_H_

#include "engine.h"

// Finding a region and giving it back, without a lock. It writes to the
// thread's own record only. Here is what needs no call, for those whom calls
// would cost more than the rest.
namespace ucx_ib_dmabuf {

// In debug builds, says which region was given back too often, and aborts.
#if ENABLE_ASSERT
void check_acquired(cached_region *e);
void check_given_back(cached_region *e);
#else
inline void check_acquired(cached_region *) {}
inline void check_given_back(cached_region *) {}
#endif

[[gnu::always_inline]] inline cached_region *
engine::find_quickly(nic_id nic, uintptr_t address, size_t length,
                     bool *sure) noexcept
{
    *sure = false;
    if (nic >= max_nics) [[unlikely]] {
        return nullptr;
    }
    references::reader me(references_, references::first_look);
    if (!me) [[unlikely]] {
        return nullptr;
    }
    cached_region *e = nics_[nic].index.find_quickly(address, length, sure);
    if (e == nullptr) {
        return nullptr;
    }
    if (!e->recent.load(std::memory_order_relaxed) ||
        check_identity_.load(std::memory_order_relaxed)) [[unlikely]] {
        *sure = false;
        return nullptr;
    }
    me->add(e->id, 1);
    me->count_hit();
    check_acquired(e);
    return e;
}

[[gnu::always_inline]] inline bool
engine::put_quickly(cached_region *e) noexcept
{
    references::reader me(references_, references::first_look);
    // Before it may be somebody else's.
    if (!me || (e->retired && !LEFT_OUT(retired_look))) [[unlikely]] {
        return false;
    }
    check_given_back(e);
    me->add(e->id, -1);
    return true;
}

} // namespace ucx_ib_dmabuf

#endif
