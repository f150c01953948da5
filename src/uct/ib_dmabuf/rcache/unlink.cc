// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <cstring>

// An entry is unlinked, that is, removed from the index. The thread that finds
// it unused then takes it, and deregisters it without the lock.
namespace ucx_ib_dmabuf {

constinit thread_local bool rcache::deregistering_ = false;

void rcache::unlink(guard &locked, entry *e, cause why, entry_chain *unused)
{
    nics_[e->nic].index.erase(e);
    e->why = why;
    if (e->users == 0) {
        take_for_dereg(locked, e, &lru_, unused);
    } else {
        e->at = stage::unlinked;
        unlinked_.splice(unlinked_.end(), lru_, e->place);
    }
}

void rcache::take_for_dereg(guard &, entry *e, entry_list *from,
                            entry_chain *out)
{
    leaving_.splice(leaving_.end(), *from, e->place);
    e->group->users -= e->users; // if it is revoked
    e->at        = stage::leaving;
    e->departure = ++departures_;
    ++nics_[e->nic].busy;
    out->push(e);
}

void rcache::call_dereg(const entry &e)
{
    static constexpr const char *names[] = {
        "not published", "released", "released, and no event told",
        "evicted",       "replaced", "detached",
        "of no use"};
    registrar &nic    = *nics_[e.nic].nic;
    const bool nested = std::exchange(deregistering_, true);
    if (e.why == cause::evicted) {
        nic.count_end(e.group->device, ending::evicted);
    } else if (e.why == cause::released || e.why == cause::stale) {
        nic.count_end(e.group->device, ending::released);
    }
    trace("deregister", e.nic, make_range(e.address, e.length), UCS_OK,
          names[static_cast<size_t>(e.why)]);
    nic.dereg(e.handle);
    deregistering_ = nested;
}

void rcache::deregister(entry_chain *taken)
{
    if (taken->empty()) {
        return;
    }
    const uint32_t generation = generation_;
    for (const entry *e = taken->first; e != nullptr; e = e->next) {
        call_dereg(*e);
        // A notified user has forked, and this is the child: all entries are
        // the parent's.
        if (generation_ != generation) {
            return;
        }
    }
    entry_list over; // freed without the lock
    {
        guard locked(lock_);
        while (entry *e = taken->pop()) {
            process_counters.add("deregistrations");
            budget_.remove(*e);
            --nics_[e->nic].busy;
            if (e->why != cause::evicted) {
                refusals_.forget(everything);
            }
            if (e->users > 0) { // it was revoked
                e->at = stage::deregistered;
                deregistered_.splice(deregistered_.end(), leaving_, e->place);
            } else {
                over.splice(over.end(), leaving_, e->place);
            }
        }
        ++room_freed_;
    }
    changed_.notify_all();
}

bool rcache::is_revoked(const region *used) const
{
    guard locked(lock_);
    return static_cast<const entry *>(used)->at >= stage::leaving;
}

void rcache::invalidate(uintptr_t address, size_t length)
{
    withdraw(make_range(address, length), {});
}

void rcache::release(uintptr_t address, size_t length)
{
    withdraw(make_range(address, length), make_range(address, length));
}

// Whether a part that users requested was released before and changes again
// now: they would reach the earlier memory.
static bool is_replaced(const entry &e, address_range happened)
{
    const address_range changed = intersection(e.bytes, happened);
    return !changed.empty() &&
           !all_segments(e.memory, changed, [](const segment &each, uintptr_t) {
               return !each.lost || each.users == 0;
           });
}

// Marks the released parts, too. If all parts are lost, users only cache the
// region; operations may be under way on a part that is left.
static bool all_is_lost(const entry &e, address_range released)
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

void rcache::withdraw(address_range range, address_range released)
{
    departing gone;
    if (range.empty()) {
        return;
    }
    {
        guard locked(lock_);
        failures_.forget(range);
        refusals_.forget(range);
        ++room_freed_;
        for (auto *work = in_progress_; work != nullptr; work = work->next) {
            work->note_event(range);
        }
        each_entry(locked, range, [&](entry *e) {
            expel(locked, e, cause::released, &gone);
            process_counters.add("invalidations");
        });
        revoke_if(locked, &gone.unused, [&](entry *e) {
            return is_replaced(*e, range) || all_is_lost(*e, released);
        });
    }
    if (gone.nics.any()) {
        trace("invalidate", max_nics, range);
    }
    depart(&gone);
}

// Users of the entries have an operation under way, or are asked to drop them.
void rcache::drop(nic_id nic)
{
    departing gone;
    if (nic >= max_nics) {
        return; // the NIC had no slot
    }
    {
        guard locked(lock_);
        for (auto *work = in_progress_; work != nullptr; work = work->next) {
            work->released |= work->nics[nic];
        }
        nics_[nic].index.each(everything, [&](entry *e) {
            expel(locked, e, cause::failed, &gone);
        });
    }
    if (gone.nics.any()) {
        trace("drop", nic, everything);
    }
    depart(&gone);
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

// Users may cache entries, which hides their uses. They are asked to drop
// entries that must not be used any more, or that take room. They also drop
// cached memory in between, and register it again.

// The NIC stays attached until drop_from_ucp_cache() returns.
void rcache::note(guard &, const entry &e, departing *out)
{
    nics_[e.nic].busy += !out->nics[e.nic];
    out->nics.set(e.nic);
    out->range = out->range.empty() ? e.bytes : hull(out->range, e.bytes);
}

// Removes the entry from the index, and in depart() from its users' caches.
void rcache::expel(guard &locked, entry *e, cause why, departing *out)
{
    note(locked, *e, out);
    unlink(locked, e, why, &out->unused);
}

void rcache::depart(departing *gone)
{
    drop_from_ucp_cache(gone);
    deregister_soon(&gone->unused);
}

void rcache::drop_from_ucp_cache(departing *gone)
{
    if (gone->nics.none()) {
        return;
    }
    for (nic_id nic = 0; gone->nics.any(); ++nic) {
        if (gone->nics[nic]) {
            nics_[nic].nic->drop_from_ucp_cache(gone->range.lo,
                                                gone->range.size());
            gone->nics.reset(nic);
            guard locked(lock_);
            --nics_[nic].busy;
        }
    }
    changed_.notify_all();
}

// From now on users must not cache entries; asks them to drop cached ones.
void rcache::need_each_use()
{
    if (each_use_.exchange(true)) {
        return;
    }
    departing cached;
    {
        guard locked(lock_);
        for (const entry &e : lru_) {
            note(locked, e, &cached);
        }
    }
    drop_from_ucp_cache(&cached);
}

} // namespace ucx_ib_dmabuf
