// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <cstring>

// A region is retired, that is, unlinked from the index. The thread that finds
// it unused then claims it, and deregisters it without the lock.
namespace ucx_ib_dmabuf {

constinit thread_local bool rcache::deregistering_ = false;

static const char *name_of(cause why)
{
    static constexpr const char *names[] = {
        "",         "released", "released, and no event told",
        "evicted",  "replaced", "detached",
        "of no use"};
    return names[static_cast<size_t>(why)];
}

static void tell_why(registrar &nic, const cached_region &e)
{
    if (e.why == cause::evicted) {
        nic.count_end(e.device, ending::evicted);
    } else if (e.why == cause::released || e.why == cause::stale) {
        nic.count_end(e.device, ending::released);
    }
}

void rcache::retire(guard &, cached_region *e, cause why)
{
    nics_[e->nic].index.erase(e);
    retired_.splice(retired_.end(), lru_, e->place);
    e->retired = true;
    e->why     = why;
}

void rcache::claim(guard &, cached_region *e, batch *out)
{
    leaving_.splice(leaving_.end(), retired_, e->place);
    e->claimed = true;
    e->claim   = ++claims_;
    ++nics_[e->nic].busy;
    out->push(e);
}

// Claims the unused ones, and removes the others from the batch, which wait for
// their last user.
void rcache::claim_unused(guard &locked, batch *retired)
{
    batch unused;
    while (cached_region *e = retired->pop()) {
        if (e->users == 0) {
            claim(locked, e, &unused);
        }
    }
    *retired = unused;
}

// Retires the chosen regions and claims the unused ones, which alone stay in
// the batch.
void rcache::retire_all(guard &locked, batch *chosen, cause why)
{
    for (cached_region *e : *chosen) {
        retire(locked, e, why);
    }
    claim_unused(locked, chosen);
}

void rcache::call_dereg(nic_id nic, void *handle, address_range range,
                        const char *why)
{
    const bool nested = deregistering_;
    deregistering_    = true;
    trace("deregister", nic, range, UCS_OK, why);
    nics_[nic].nic->dereg(handle);
    deregistering_ = nested;
}

void rcache::deregister(batch *claimed)
{
    if (claimed->empty()) {
        return;
    }
    unsigned done             = 0;
    const uint32_t generation = generation_;
    for (cached_region *e : *claimed) {
        tell_why(*nics_[e->nic].nic, *e);
        call_dereg(e->nic, e->handle, make_range(e->address, e->length),
                   name_of(e->why));
        // A notified user has forked, and this is the child: all regions are
        // the parent's.
        if (generation_ != generation) {
            return;
        }
        ++done;
    }
    process_counters.add("deregistrations", done);
    region_list over; // freed without the lock
    {
        guard locked(lock_);
        while (cached_region *e = claimed->pop()) {
            budget_.remove(e->nic, e->length);
            if (mapping::part(e)) {
                budget_.unmap(e->device, e->exported);
            }
            --nics_[e->nic].busy;
            if (e->users > 0) { // it was revoked
                e->ended = true;
                ended_.splice(ended_.end(), leaving_, e->place);
            } else {
                over.splice(over.end(), leaving_, e->place);
            }
        }
    }
    changed_.notify_all();
}

bool rcache::is_revoked(const region *used) const
{
    guard locked(lock_);
    return static_cast<const cached_region *>(used)->revoked;
}

void rcache::invalidate(uintptr_t address, size_t length)
{
    withdraw(make_range(address, length), {});
}

void rcache::release(uintptr_t address, size_t length)
{
    withdraw(make_range(address, length), make_range(address, length));
}

void rcache::withdraw(address_range range, address_range released)
{
    batch gone;
    if (range.empty()) {
        return;
    }
    guard locked(lock_);
    log_.add(range);
    failures_.forget(range);
    for (pending *work = pending_; work != nullptr; work = work->next) {
        work->released |= work->range.overlaps(range);
    }
    each_region(locked, range, [&](cached_region *e) {
        gone.push(e);
        process_counters.add("invalidations");
    });
    if (gone.empty() && retired_.empty()) {
        return;
    }
    expel(locked, &gone, cause::released, released,
          {.what = gone.empty() ? nullptr : "invalidate", .range = range});
}

// Users of the regions have an operation under way, or are asked to drop them.
void rcache::drop(nic_id nic)
{
    batch gone;
    if (nic >= max_nics) {
        return; // the NIC had no slot
    }
    guard locked(lock_);
    for (pending *work = pending_; work != nullptr; work = work->next) {
        work->released |= work->nics[nic];
    }
    nics_[nic].index.each(everything, [&](cached_region *e) { gone.push(e); });
    if (!gone.empty()) {
        expel(locked, &gone, cause::failed, {},
              {.what = "drop", .nic = nic, .range = everything});
    }
}

void rcache::drop(const char *device)
{
    const auto is_of_it = [&](nic_id nic) {
        const guard locked(lock_);
        const registrar *attached = nics_[nic].nic;
        return attached != nullptr && strcmp(attached->name(), device) == 0;
    };
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        if (is_of_it(nic)) {
            drop(nic);
        }
    }
}

// Whether a part that users requested was released before and changes again
// now: they would reach the earlier memory.
static bool is_replaced(const cached_region &e, address_range happened)
{
    const address_range changed = intersection(e.bytes, happened);
    return !changed.empty() &&
           !all_segments(e.memory, changed, [](const segment &each, uintptr_t) {
               return !each.lost || each.users == 0;
           });
}

// Marks the released parts, too. If all parts are lost, users only cache the
// region; operations may be under way on a part that is left.
static bool all_is_lost(const cached_region &e, address_range released)
{
    bool all = true;
    for (auto each = e.memory.begin(); each != e.memory.end(); ++each) {
        const bool is_last       = each + 1 == e.memory.end();
        const address_range part = intersection(
            e.bytes, {each->base, is_last ? UINTPTR_MAX : each[1].base});
        each->lost |= released.covers(part);
        all &= each->lost || part.empty();
    }
    return all;
}

// Removes the chosen regions from the index and from their users' caches.
// Deregisters them, or lets their last users do so. Traces in between.
void rcache::expel(guard &locked, batch *gone, cause why,
                   address_range released, const step &traced)
{
    kept_regions kept;
    for (const cached_region *e : *gone) {
        keep(locked, &kept, e);
    }
    retire_all(locked, gone, why);
    revoke_if(locked, gone, [&](cached_region *e) {
        return is_replaced(*e, traced.range) || all_is_lost(*e, released);
    });
    locked.unlock();
    if (traced.what != nullptr) {
        trace(traced.what, traced.nic, traced.range);
    }
    ask_back(kept);
    deregister_soon(gone);
}

// Users may cache regions, which hides their uses. They are asked to drop
// regions that must not be used any more, or that take room. They also drop
// cached memory in between, and register it again.

// The NIC stays attached until ask_back() returns.
void rcache::keep(guard &, kept_regions *result, const cached_region *e)
{
    nics_[e->nic].busy += !result->nics[e->nic];
    result->where =
        result->where.empty() ? e->bytes : hull(result->where, e->bytes);
    result->nics.set(e->nic);
}

void rcache::ask_back(const kept_regions &kept)
{
    if (kept.nics.none()) {
        return;
    }
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        if (kept.nics[nic]) {
            nics_[nic].nic->drop_from_ucp_cache(kept.where.lo,
                                                kept.where.size());
            guard locked(lock_);
            --nics_[nic].busy;
        }
    }
    changed_.notify_all();
}

// From now on users must not cache regions; asks them to drop cached ones.
void rcache::need_each_use()
{
    if (each_use_.exchange(true)) {
        return;
    }
    kept_regions kept;
    {
        guard locked(lock_);
        for (const cached_region &e : lru_) {
            keep(locked, &kept, &e);
        }
    }
    ask_back(kept);
}

} // namespace ucx_ib_dmabuf
