// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include "mapping.h"

// Room is made by evicting idle regions, least recently used first: for the
// budget, and after the GPU or a NIC has refused.
namespace ucx_ib_dmabuf {

// After so many requests for which there was no room it is looked for again:
// another process may have made some.
constexpr unsigned asked_again_after = 128;

void engine::learn_limit(guard &locked, int device)
{
    if (budget_.knows(device)) {
        return;
    }
    size_t bytes = SIZE_MAX;
    if (settings_.max_bytes) {
        locked.unlock();
        bytes = settings_.max_bytes(device);
        locked.lock();
    }
    budget_.set_max_bytes(device, bytes);
}

static void take_off(size_t *from, size_t bytes)
{
    *from -= std::min(*from, bytes);
}

// As far as can be told while others may acquire it; of what is retired see
// claim_unused().
bool engine::is_idle(guard &, cached_region *e) const
{
    return references_.total(e->id) + e->rest->extra_references == 0;
}

bool engine::is_idle_mapping(guard &locked, cached_region *e) const
{
    return mapping::all_of(
        e, [&](cached_region *each) { return is_idle(locked, each); });
}

// One of the mapping's regions in the index, always the same.
static bool is_first(cached_region *e)
{
    return mapping::all_of(e, [e](cached_region *each) {
        return each->id >= e->id || each->why != cause::none;
    });
}

// What would be lacking still, were everything idle evicted.
shortage engine::left_after(guard &locked, shortage lacking) const
{
    for (cached_region *e = lru_.oldest(); e != nullptr && !lacking.nothing();
         e                = e->rest->newer) {
        if (!is_idle(locked, e)) {
            continue;
        }
        take_off(&lacking.regions, 1);
        if (e->nic == lacking.nic) {
            take_off(&lacking.registered, e->length);
        }
        if (lacking.mapped > 0 && e->device == lacking.device && is_first(e) &&
            is_idle_mapping(locked, e)) {
            take_off(&lacking.mapped, e->length);
        }
    }
    return lacking;
}

void engine::choose(guard &, cached_region *e, shortage *lacking, batch *out)
{
    take_off(&lacking->regions, 1);
    take_off(&lacking->registered, e->nic == lacking->nic ? e->length : 0);
    e->why = cause::evicted;
    out->push(e);
}

// With all NICs, as only that unmaps it.
void engine::choose_mapping(guard &locked, cached_region *e, shortage *lacking,
                            batch *out)
{
    take_off(&lacking->mapped, e->length);
    mapping::all_of(e, [&](cached_region *each) {
        if (each->why == cause::none) {
            choose(locked, each, lacking, out);
        }
        return true;
    });
}

// What a new registration of the range overlaps is the first to go. NICs that
// have all of theirs in the range get it again from the same export.
void engine::choose_overlapping(guard &locked, nic_id nic, span range,
                                shortage *lacking, batch *out)
{
    for (nic_id each = 0; each < nic_end_; ++each) {
        const address_index &index = nics_[each].index;
        for (cached_region *e                       = index.first(range);
             e != nullptr && lacking->mapped > 0; e = index.next(e, range)) {
            if ((each == nic || range.covers(e->bytes)) &&
                e->why == cause::none && e->device == lacking->device &&
                is_idle_mapping(locked, e)) {
                choose_mapping(locked, e, lacking, out);
            }
        }
    }
}

// Idle regions that free what is lacking, or as much as there is: whole
// mappings of the device, or single regions. What was used since the last look
// gets a second chance.
void engine::choose_oldest(guard &locked, shortage *lacking, batch *out)
{
    for (size_t steps = 2 * lru_.size(); steps > 0 && !lacking->nothing();
         --steps) {
        cached_region *e = lru_.oldest();
        lru_.remove(e);
        lru_.add(e);
        // Once for all of a mapping: the look at what is recent ends that.
        bool whole =
            lacking->mapped > 0 && e->device == lacking->device && is_first(e);
        bool alone = lacking->regions > 0 ||
                     (lacking->registered > 0 && e->nic == lacking->nic);
        if (e->why != cause::none || !(whole || alone) || !is_idle(locked, e)) {
            continue;
        }
        whole       = whole && is_idle_mapping(locked, e);
        bool recent = e->recent.exchange(false);
        if (whole) {
            mapping::all_of(e, [&](cached_region *each) {
                recent |= each->recent.exchange(false);
                return true;
            });
        }
        if (!recent && whole) {
            choose_mapping(locked, e, lacking, out);
        } else if (!recent && alone) {
            choose(locked, e, lacking, out);
        }
    }
}

// Releases the lock.
void engine::evict_chosen(guard &locked, batch *victims)
{
    count(count_.evictions, retire_all(locked, victims, cause::evicted));
    locked.unlock();
    deregister(victims);
    locked.lock();
}

// Until what is being deregistered by other threads is gone, whatever follows.
// False if there is nothing.
bool engine::wait_for_leaving(guard &locked)
{
    if (leaving_.oldest() == nullptr) {
        return false;
    }
    changed_.wait(locked, [this, last = claims_] {
        const cached_region *e = leaving_.oldest();
        return e == nullptr || e->rest->claim > last;
    });
    return true;
}

// Takes room for a registration of the range from the budget, after evicting
// what stands in its way; evicts nothing if that is not enough.
bool engine::reserve(guard &locked, nic_id nic, int device, span range)
{
    amount wanted{range.size(), 1};
    for (bool waited = false;;) {
        if (!budget_.possible(device, wanted)) {
            return false;
        }
        amount over = budget_.lacking(device, wanted);
        if (over.nothing()) {
            budget_.map(device, range.size());
            budget_.add(nic, range.size());
            return true;
        }
        shortage lacking{.device  = budget::place(device),
                         .mapped  = over.bytes,
                         .regions = over.regions};
        batch victims;
        if (left_after(locked, lacking).nothing()) {
            choose_overlapping(locked, nic, range, &lacking, &victims);
            choose_oldest(locked, &lacking, &victims);
        }
        if (victims.empty()) {
            if (waited || !wait_for_leaving(locked)) {
                return false;
            }
            waited = true;
            continue;
        }
        evict_chosen(locked, &victims);
    }
}

// False if there was nothing to evict.
bool engine::evict(guard &locked, const shortage &lacking, evicted *gone)
{
    batch victims;
    shortage left = lacking;
    choose_oldest(locked, &left, &victims);
    gone->mapped += lacking.mapped - left.mapped;
    gone->registered += lacking.registered - left.registered;
    evict_chosen(locked, &victims);
    return left.mapped < lacking.mapped || left.registered < lacking.registered;
}

// UCS_OK if it is worth trying what is reserved already: not if as much has
// been refused, and nothing has changed and nothing can leave to make it less.
ucs_status_t engine::may_fit(guard &locked, nic_id nic, int device, size_t size,
                             evicted *gone)
{
    refusal *last     = refusals_.find(nic, budget::place(device));
    size_t mapped     = budget_.mapped(device);
    size_t registered = budget_.registered(nic);
    if (last == nullptr || mapped < last->mapped ||
        registered < last->registered) {
        return UCS_OK;
    }
    if (last->changes != changes_ || ++last->asked % asked_again_after == 0) {
        last->vain_mapped = last->vain_registered = SIZE_MAX;
        return UCS_OK;
    }
    shortage lacking{.device = budget::place(device), .nic = nic};
    if (size < last->vain_mapped && gone->mapped < size) {
        lacking.mapped = mapped - last->mapped + 1;
    }
    if (size < last->vain_registered && gone->registered < size) {
        lacking.registered = registered - last->registered + 1;
    }
    shortage left = left_after(locked, lacking);
    bool gpu_room = lacking.mapped > 0 && left.mapped == 0;
    bool nic_room = lacking.registered > 0 && left.registered == 0;
    if (!gpu_room && !nic_room) {
        return last->status;
    }
    lacking.mapped     = gpu_room ? std::max(lacking.mapped, size) : 0;
    lacking.registered = nic_room ? std::max(lacking.registered, size) : 0;
    evict(locked, lacking, gone);
    return UCS_OK;
}

// After the GPU or the NIC said that there is no room: tries again after
// what others deregister, or have since; then evicts as much of both, in all
// for one miss. False if that is no use.
bool engine::make_room(nic_id nic, int device, size_t size, ucs_status_t status,
                       evicted *gone)
{
    guard locked(lock_);
    if (!gone->waited && (wait_for_leaving(locked) ||
                          budget_.registered(nic) < gone->before.registered ||
                          budget_.mapped(device) < gone->before.mapped)) {
        gone->waited = true;
        note_attempt(locked, nic, device, gone);
        return true;
    }
    int place     = budget::place(device);
    refusal *last = refusals_.find(nic, place);
    if (last == nullptr) {
        last = refusals_.add(nic, place);
    }
    // What changed or left since it was tried is no use to it, but may be to
    // the next one.
    if (last->changes != gone->before.changes) {
        last->changes     = gone->before.changes;
        last->vain_mapped = last->vain_registered = SIZE_MAX;
    }
    last->status = status;
    last->mapped = std::max(gone->before.mapped, budget_.mapped(device));
    last->registered =
        std::max(gone->before.registered, budget_.registered(nic));
    // As much has gone, and that was not it.
    if (gone->mapped >= size) {
        last->vain_mapped = std::min(last->vain_mapped, size);
    }
    if (gone->registered >= size) {
        last->vain_registered = std::min(last->vain_registered, size);
    }
    shortage lacking{.device = place, .nic = nic};
    if (gone->mapped < size) {
        lacking.mapped = size < last->vain_mapped ? size - gone->mapped : 0;
    }
    if (gone->registered < size) {
        lacking.registered =
            size < last->vain_registered ? size - gone->registered : 0;
    }
    if (lacking.nothing() || !evict(locked, lacking, gone)) {
        return false;
    }
    note_attempt(locked, nic, device, gone);
    return true;
}

void engine::note_attempt(guard &, nic_id nic, int device, evicted *gone)
{
    gone->before = {changes_, budget_.mapped(device), budget_.registered(nic)};
}

// There was room, without other attempts that may have failed since: if as much
// was refused once, that is over.
void engine::found_room(guard &, nic_id nic, int device)
{
    refusal *last = refusals_.find(nic, budget::place(device));
    if (last != nullptr && budget_.mapped(device) >= last->mapped &&
        budget_.registered(nic) >= last->registered) {
        last->mapped = last->registered = SIZE_MAX;
        last->vain_mapped = last->vain_registered = SIZE_MAX;
    }
}

} // namespace ucx_ib_dmabuf
