// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_HIT_H_
#define UCX_IB_DMABUF_CACHE_HIT_H_

#include "engine.h"

// Finding a region and giving it back, without a lock. It writes to the
// thread's own record only.
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
engine::find(nic_id nic, uintptr_t address, size_t length) noexcept
{
    if (nic >= max_nics) [[unlikely]] {
        return nullptr;
    }
    cached_region *e;
    bool usual;
    {
        references::reader me(references_);
        if (!me) [[unlikely]] {
            return find_locked(nic, address, length);
        }
        e = nics_[nic].index.find(address, length);
        if (e == nullptr) {
            return nullptr;
        }
        me->add(e->id, 1);
        me->count_hit();
        usual = e->recent.load(std::memory_order_relaxed) &&
                !check_identity_.load(std::memory_order_relaxed);
        check_acquired(e);
    }
    return usual ? e : attend(e, make_span(address, length));
}

[[gnu::always_inline]] inline void engine::put(cached_region *e) noexcept
{
    bool retired;
    {
        references::reader me(references_);
        if (!me) [[unlikely]] {
            return put_locked(e);
        }
        check_given_back(e);
        // Before it may be somebody else's.
        retired = e->retired && !LEFT_OUT(retired_look);
        me->add(e->id, -1);
    }
    if (retired) [[unlikely]] {
        last_reference(e);
    }
}

} // namespace ucx_ib_dmabuf

#endif
