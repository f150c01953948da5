// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <uct/ib_dmabuf/stats/counters.h>

// Idle regions are evicted, least recently used first: for the budget, and
// after the GPU or a NIC has refused.
namespace ucx_ib_dmabuf {

// Two threads may both be first and call max_bytes(), without the lock: it
// returns the same.
void rcache::learn_limit(guard &locked, int device)
{
    if (budget_.knows(device)) {
        return;
    }
    size_t bytes = SIZE_MAX;
    if (settings_.max_bytes) {
        locked.unlock();
        bytes = settings_.max_bytes(device);
        if (bytes != SIZE_MAX) {
            need_each_use(); // also for GPUs without a limit
        }
        locked.lock();
    }
    budget_.set_max_bytes(device, bytes);
}

static void take_off(size_t *from, size_t bytes)
{
    *from -= std::min(*from, bytes);
}

static bool is_idle_mapping(cached_region *e)
{
    return mapping::all_of(
        e, [](cached_region *each) { return each->users == 0; });
}

// Whether its last use is the latest of its mapping's regions in the index. The
// mapping is as old as that use.
static bool is_newest(cached_region *e)
{
    return mapping::all_of(e, [e](cached_region *each) {
        return each->last_use <= e->last_use || each->why != cause::none;
    });
}

void rcache::choose(guard &, cached_region *e, shortage *lacking, batch *out)
{
    take_off(&lacking->regions, 1);
    take_off(&lacking->registered, e->nic == lacking->nic ? e->length : 0);
    e->why = cause::evicted;
    out->push(e);
}

// Evicts the mapping for all NICs, as only that unmaps it.
void rcache::choose_mapping(guard &locked, cached_region *e, shortage *lacking,
                            batch *out)
{
    take_off(&lacking->mapped, e->exported);
    mapping::all_of(e, [&](cached_region *each) {
        if (each->why == cause::none) {
            choose(locked, each, lacking, out);
        }
        return true;
    });
}

// Regions that a new registration overlaps are evicted first. If another NIC's
// region lies in the range, the same export can register it again.
void rcache::choose_overlapping(guard &locked, nic_id nic, address_range range,
                                shortage *lacking, batch *out)
{
    each_region(locked, range, [&](cached_region *e) {
        if (lacking->mapped > 0 && e->device == lacking->device &&
            (e->nic == nic || range.covers(e->bytes)) &&
            e->why == cause::none && is_idle_mapping(e)) {
            choose_mapping(locked, e, lacking, out);
        }
    });
}

// Chooses idle regions that free the lacking room, or as much as possible:
// whole mappings of the device, or single regions.
void rcache::choose_oldest(guard &locked, shortage *lacking, batch *out)
{
    for (cached_region &e : lru_) {
        if (lacking->nothing()) {
            break;
        }
        const bool whole = lacking->mapped > 0 && e.device == lacking->device &&
                           is_newest(&e) && is_idle_mapping(&e);
        const bool alone = lacking->regions > 0 ||
                           (lacking->registered > 0 && e.nic == lacking->nic);
        if (e.why != cause::none || e.users > 0) {
            continue;
        }
        if (whole) {
            choose_mapping(locked, &e, lacking, out);
        } else if (alone) {
            choose(locked, &e, lacking, out);
        }
    }
}

// The room that would still be lacking if all idle regions were evicted.
shortage rcache::left_after(guard &locked, shortage lacking)
{
    batch victims;
    choose_oldest(locked, &lacking, &victims);
    for (cached_region *e : victims) {
        e->why = cause::none;
    }
    return lacking;
}

void rcache::evict_chosen(guard &locked, batch *victims)
{
    for ([[maybe_unused]] const cached_region *e : *victims) {
        process_counters.add("evictions");
    }
    retire_all(locked, victims, cause::evicted);
    locked.unlock();
    deregister(victims);
    locked.lock();
}

// Waits for the deregistrations that other threads have begun, not for later
// ones. Returns false if there are none.
bool rcache::wait_for_leaving(guard &locked)
{
    if (leaving_.empty() || deregistering_) {
        return false;
    }
    changed_.wait(locked, [this, last = claims_] {
        return leaving_.empty() || leaving_.front().claim > last;
    });
    return true;
}

// The bytes of the GPU and of the NIC without those reserved for this work.
attempt rcache::beside(guard &, const pending &work) const
{
    const registered &made = work.made;
    return {.time       = log_.now(),
            .mapped     = budget_.mapped(work.memory.device) - made.exported(),
            .registered = budget_.registered(work.nic) - made.range.size()};
}

// Returns UCS_OK if an attempt is worthwhile. Otherwise returns how as much was
// refused; `lacking` is the room to free first, if that is possible.
ucs_status_t rcache::refused(guard &locked, const pending &work,
                             shortage *lacking)
{
    refusal *last = &refusals_.of(work.nic, lacking->device);
    size_t size   = work.made.range.size();
    size_t mapped = budget_.mapped(work.memory.device) + work.made.exported();
    size_t registered = budget_.registered(work.nic) + size;
    if (last->nic != work.nic || last->device != lacking->device ||
        last->time != log_.now() || size < last->size ||
        mapped < last->mapped || registered < last->registered) {
        return UCS_OK;
    }
    if (++last->asked == failures::asked_again_after) {
        last->size = SIZE_MAX; // ends the refusal, unless this one fails
        return UCS_OK;
    }
    lacking->mapped     = mapped - last->mapped + 1;
    lacking->registered = registered - last->registered + 1;
    shortage left       = left_after(locked, *lacking);
    if (left.mapped > 0) {
        lacking->mapped = 0;
    }
    if (left.registered > 0) {
        lacking->registered = 0;
    }
    return last->status;
}

// Reserves room for a registration of the range, after evicting regions if
// needed. Evicts nothing if that would not suffice.
ucs_status_t rcache::reserve(guard &locked, const pending &work)
{
    int device            = work.memory.device;
    address_range range   = work.made.range;
    const size_t exported = work.made.exported();
    for (bool waited = false;;) {
        shortage lacking    = budget_.lacking(device, exported, 1);
        lacking.nic         = work.nic;
        const bool allowed  = lacking.nothing();
        ucs_status_t status = UCS_ERR_EXCEEDS_LIMIT;
        if (allowed) {
            status = refused(locked, work, &lacking);
        }
        batch victims;
        if (status != UCS_OK && !lacking.nothing() &&
            left_after(locked, lacking).nothing()) {
            choose_overlapping(locked, work.nic, range, &lacking, &victims);
            choose_oldest(locked, &lacking, &victims);
        }
        if (!victims.empty()) {
            evict_chosen(locked, &victims);
        } else if (status != UCS_OK && !waited && wait_for_leaving(locked)) {
            waited = true;
        } else if (status == UCS_OK || (allowed && work.persistent)) {
            budget_.map(device, exported);
            budget_.add(work.nic, range.size());
            return UCS_OK;
        } else {
            return status;
        }
    }
}

// Notes the bytes of the GPU and of the NIC that were too many, with those of
// this attempt. If the attempt's bytes were freed since the first refusal, that
// number was not the cause: notes 0.
void rcache::note_refusal(guard &, const pending &work, ucs_status_t status)
{
    const attempt &last = work.tried;
    const size_t size   = work.made.range.size();
    refusal note{.nic        = work.nic,
                 .device     = budget::place(work.memory.device),
                 .status     = status,
                 .time       = last.time,
                 .size       = size,
                 .mapped     = last.mapped + work.made.exported(),
                 .registered = last.registered + size};
    if (work.refused && note.mapped <= work.refused->mapped) {
        note.mapped = 0;
    }
    if (work.refused && note.registered <= work.refused->registered) {
        note.registered = 0;
    }
    refusals_.of(note.nic, note.device) = note;
}

// Returns whether there was any victim.
bool rcache::evict_oldest(guard &locked, shortage lacking)
{
    batch victims;
    choose_oldest(locked, &lacking, &victims);
    const bool any = !victims.empty();
    evict_chosen(locked, &victims);
    return any;
}

bool rcache::evict_all_idle()
{
    need_each_use();
    guard locked(lock_);
    const bool waited = wait_for_leaving(locked);
    return evict_oldest(locked, {.regions = SIZE_MAX}) || waited;
}

// Called after the GPU or the NIC lacked room; the error does not tell which.
// First waits for other threads' deregistrations, and evicts until GPU and NIC
// hold no more with the attempt than they held without it. The next time,
// evicts everything idle if the work insists. At last asks other processes.
// Returns false if another attempt is useless.
bool rcache::make_room(pending *work, ucs_status_t status)
{
    need_each_use();
    guard locked(lock_);
    const attempt last = work->tried;
    attempt left; // zero
    note_refusal(locked, *work, status);
    if (!work->refused) {
        work->refused = left = last;
    } else if (!work->insists()) {
        return ask_others(locked, work);
    }
    wait_for_leaving(locked);
    shortage lacking{.device     = budget::place(work->memory.device),
                     .nic        = work->nic,
                     .mapped     = budget_.mapped(work->memory.device),
                     .registered = budget_.registered(work->nic)};
    take_off(&lacking.mapped, left.mapped);
    take_off(&lacking.registered, left.registered);
    evict_oldest(locked, lacking);
    work->tried = beside(locked, *work);
    return work->tried.mapped < last.mapped ||
           work->tried.registered < last.registered || ask_others(locked, work);
}

// Once, for the pages of the request. Another process may be stopped, and it
// evicts everything idle. So requests with a fallback spend at most a twentieth
// of the time on this.
bool rcache::ask_others(guard &locked, pending *work)
{
    const uint64_t begin = nanoseconds_now();
    if (!work->exact || (!work->persistent && begin < ask_again_) ||
        std::exchange(work->asked_others, true)) {
        return false;
    }
    locked.unlock();
    const bool gave    = settings_.ask_others();
    const uint64_t end = nanoseconds_now();
    locked.lock();
    ask_again_ = end + 20 * (end - begin);
    if (gave) {
        refusals_ = {};
    }
    return gave;
}

} // namespace ucx_ib_dmabuf
