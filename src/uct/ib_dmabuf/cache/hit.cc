// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include <cstdio>
#include <cstdlib>

namespace ucx_ib_dmabuf {

#if ENABLE_ASSERT
void check_acquired(cached_region *e)
{
    ++e->rest->checked_references;
}

void check_given_back(cached_region *e)
{
    if (e->rest->checked_references-- <= 0) {
        fprintf(stderr,
                "ib_dmabuf cache: the region at 0x%zx (%zu bytes) was given "
                "back more often than acquired\n",
                static_cast<size_t>(e->address), e->length);
        abort();
    }
}
#endif

cached_region *engine::find(nic_id nic, uintptr_t address,
                            size_t length) noexcept
{
    bool sure;
    cached_region *e = find_quickly(nic, address, length, &sure);
    if (e != nullptr || sure || nic >= max_nics) {
        return e;
    }
    bool usual;
    {
        references::reader me(references_);
        if (!me) {
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

void engine::put(cached_region *e) noexcept
{
    if (put_quickly(e)) {
        return;
    }
    bool retired;
    {
        references::reader me(references_);
        if (!me) {
            return put_locked(e);
        }
        check_given_back(e);
        // Before it may be somebody else's.
        retired = e->retired && !LEFT_OUT(retired_look);
        me->add(e->id, -1);
    }
    if (retired) {
        last_reference(e);
    }
}

cached_region *engine::find_locked(nic_id nic, uintptr_t address,
                                   size_t length) noexcept
{
    references_.prepare(lock_);
    cached_region *e;
    {
        guard locked(lock_);
        e = nics_[nic].index.find(address, length);
        if (e == nullptr) {
            return nullptr;
        }
        add_reference(locked, e);
        count(count_.locked_hits);
    }
    return attend(e, make_span(address, length));
}

void engine::add_reference(guard &, cached_region *e)
{
    references::record *me = references_.mine();
    if (me != nullptr) {
        me->add(e->id, 1);
    } else {
        ++e->rest->extra_references;
    }
    check_acquired(e);
}

// A hit that needs more than the usual: it is the first one, or the first since
// eviction looked, or its memory is asked for. nullptr, and given back, if that
// is gone.
cached_region *engine::attend(cached_region *e, span request) noexcept
{
    e->recent.store(true, std::memory_order_relaxed);
    if (e->unasked.load(std::memory_order_relaxed) &&
        e->unasked.exchange(false)) {
        ++nics_[e->nic].used[e->device];
    }
    if (!check_identity_) {
        return e;
    }
    const auto *each = e->rest->memory.first_in(request);
    for (; each != e->rest->memory.end() && each->base < request.hi; ++each) {
        count(count_.identity_checks);
        if (!memory_.is_current(std::max(each->base, request.lo),
                                each->identity)) {
            break;
        }
    }
    if (each == e->rest->memory.end() || each->base >= request.hi) {
        return e;
    }
    count(count_.identity_misses);
    count(count_.false_hits);
    batch gone;
    kept_regions kept;
    {
        guard locked(lock_);
        uintptr_t at = std::max(each->base, request.lo);
        each_region(locked, e->bytes, [&](cached_region *other) {
            if (other->bytes.covers({at, at + 1}) &&
                other->rest->memory.identity_at(at) == each->identity) {
                gone.push(other);
            }
        });
        kept = kept_of(locked, gone);
        retire_all(locked, &gone, cause::stale);
    }
    ask_back(kept);
    deregister_soon(&gone);
    put(e);
    return nullptr;
}

// By a thread without a record, or while there is a writer.
void engine::put_locked(cached_region *e) noexcept
{
    references::record *me = references_.prepare(lock_);
    bool retired;
    {
        guard locked(lock_);
        check_given_back(e);
        if (me != nullptr) {
            me->add(e->id, -1);
        } else {
            --e->rest->extra_references;
        }
        retired = e->retired;
    }
    if (retired) {
        last_reference(e);
    }
}

} // namespace ucx_ib_dmabuf
