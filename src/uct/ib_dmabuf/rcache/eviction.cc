// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"

// Idle entries are evicted, least recently used first: for the budget, and
// after the GPU or a NIC has refused.
namespace ucx_ib_dmabuf {

static void take_off(size_t *from, size_t bytes)
{
    *from -= std::min(*from, bytes);
}

// Chooses idle entries that free the lacking room, or as much as possible;
// `lacking` is the rest. Only a group without users frees mapped bytes.
entry_chain rcache::choose(guard &, shortage *lacking)
{
    entry_chain victims;
    const auto choose_from = [&](export_group &group, bool whole) {
        take_off(&lacking->mapped, whole ? group.bytes : 0);
        for (entry &e : group.cached) {
            const bool is_of_nic = e.nic == lacking->nic;
            if (e.users == 0 && (whole || lacking->entries > 0 ||
                                 (lacking->registered > 0 && is_of_nic))) {
                take_off(&lacking->entries, 1);
                take_off(&lacking->registered, is_of_nic ? e.length : 0);
                victims.push(&e);
            }
        }
    };
    auto idle = lru_.begin(), partly = partly_used_.begin();
    while (!lacking->nothing()) {
        const bool helps = lacking->entries > 0 || lacking->registered > 0;
        if (helps && partly != partly_used_.end() &&
            (idle == lru_.end() || (*partly)->last_use < (*idle)->last_use)) {
            choose_from(**partly++, false);
        } else if (idle != lru_.end()) {
            export_group &group = **idle++;
            choose_from(group,
                        lacking->mapped > 0 && group.device == lacking->device);
        } else {
            break;
        }
    }
    return victims;
}

// Returns false if there are none.
bool rcache::evict(guard &locked, entry_chain victims)
{
    const bool any = !victims.empty();
    entry_chain unused;
    while (entry *e = victims.pop()) {
        process_counters.add("evictions");
        unlink(locked, e, cause::evicted, &unused);
    }
    locked.unlock();
    deregister(&unused);
    locked.lock();
    return any;
}

// Waits for the deregistrations that other threads have begun, not for later
// ones. Returns false if there are none.
bool rcache::wait_for_leaving(guard &locked)
{
    if (leaving_.empty() || deregistering_) {
        return false;
    }
    const uint64_t last = departures_;
    deregister_waiting(locked);
    changed_.wait(locked, [this, last] {
        return leaving_.empty() || leaving_.front().departure > last;
    });
    return true;
}

// Evicts what the budget lacks for the entry, or nothing if that would not
// suffice.
ucs_status_t rcache::make_room(guard &locked, const entry &wanted)
{
    const export_group &group = *wanted.group;
    for (bool waited = false;;) {
        shortage lacking = budget_.lacking(group.device, group.bytes, 1);
        if (lacking.nothing()) {
            return UCS_OK;
        }
        // Entries that it overlaps leave first. If another NIC's entry lies in
        // the range, the same export can register it again.
        each_entry(locked, wanted.bytes, [&](entry *e) {
            if (lacking.mapped > 0 && e->group->users == 0 &&
                (e->nic == wanted.nic || wanted.bytes.covers(e->bytes))) {
                lru_.splice(lru_.begin(), lru_, e->group->place);
                e->group->last_use = 0;
            }
        });
        entry_chain victims = choose(locked, &lacking);
        if (lacking.nothing()) {
            evict(locked, victims);
        } else if (waited || !wait_for_leaving(locked)) {
            return UCS_ERR_EXCEEDS_LIMIT;
        } else {
            waited = true;
        }
    }
}

// A request as small was refused. With as many bytes of the GPU and of the NIC
// in use, evicts what is too much. Returns the error if that is impossible.
ucs_status_t rcache::heed_refusal(guard &locked, const failures::failure &known,
                                  const entry &wanted)
{
    const int device        = wanted.group->device;
    const size_t mapped     = budget_.mapped(device) + wanted.group->bytes;
    const size_t registered = budget_.registered(wanted.nic) + wanted.length;
    if (mapped < known.mapped || registered < known.registered) {
        return UCS_OK;
    }
    const ucs_status_t status = known.status; // the lock will be released
    shortage lacking{.device     = device,
                     .nic        = wanted.nic,
                     .mapped     = mapped - known.mapped + 1,
                     .registered = registered - known.registered + 1};
    shortage left = lacking;
    choose(locked, &left);
    lacking.mapped     = left.mapped > 0 ? 0 : lacking.mapped;
    lacking.registered = left.registered > 0 ? 0 : lacking.registered;
    if (lacking.nothing()) {
        return wait_for_leaving(locked) ? UCS_OK : status;
    }
    evict(locked, choose(locked, &lacking));
    return UCS_OK;
}

// Notes which bytes were too many. A number was not the cause if it is no
// larger than it was without this registration before the eviction.
void rcache::note_refusal(guard &, const new_registration &work,
                          ucs_status_t status)
{
    const entry &e    = work.new_entries.front();
    const int device  = e.group->device;
    size_t mapped     = budget_.mapped(device);
    size_t registered = budget_.registered(e.nic);
    if (work.evicted) {
        mapped     = mapped <= work.mapped_before ? 0 : mapped;
        registered = registered <= work.registered_before ? 0 : registered;
    }
    refusals_.add({.what       = uint64_t(device),
                   .nic        = e.nic,
                   .status     = status,
                   .size       = e.length,
                   .mapped     = mapped,
                   .registered = registered});
}

bool rcache::evict_all_idle()
{
    need_each_use();
    guard locked(lock_);
    const bool waited = wait_for_leaving(locked);
    shortage all{.entries = SIZE_MAX};
    return evict(locked, choose(locked, &all)) || waited;
}

// Makes room after a refusal, and tries again: as long as it helps, and each
// step once.
ucs_status_t rcache::retry(new_registration *work, ucs_status_t status)
{
    guard locked(lock_);
    // Others may have ended their deregistrations during the attempt.
    const bool is_freed =
        wait_for_leaving(locked) || room_freed_ != work->freed;
    locked.unlock();
    if (is_freed) {
        status = export_and_register(work);
    }
    if (lacks_room(status) && evict_as_much(work)) {
        status = export_and_register(work);
    }
    if (lacks_room(status) && work->insists() && evict_all_idle()) {
        status = export_and_register(work);
    }
    if (lacks_room(status) && ask_others(work)) {
        status = export_and_register(work);
    }
    return status;
}

// Evicts as many bytes as are to be registered, once for a request.
bool rcache::evict_as_much(new_registration *work)
{
    const entry &e = work->new_entries.front();
    guard locked(lock_);
    if (work->evicted) {
        return false;
    }
    shortage lacking{.device     = e.group->device,
                     .nic        = e.nic,
                     .mapped     = e.group->bytes,
                     .registered = e.length};
    work->mapped_before     = budget_.mapped(e.group->device) - e.group->bytes;
    work->registered_before = budget_.registered(e.nic) - e.length;
    work->evicted           = evict(locked, choose(locked, &lacking));
    return work->evicted;
}

// Once, for the pages of the request. Another process may be stopped, and it
// evicts everything idle. So requests with a fallback spend at most a twentieth
// of the time on this.
bool rcache::ask_others(new_registration *work)
{
    const uint64_t begin = nanoseconds_now();
    {
        guard locked(lock_);
        if (!work->exact || (!work->persistent && begin < ask_again_) ||
            std::exchange(work->asked_others, true)) {
            return false;
        }
    }
    const bool any     = settings_.ask_others();
    const uint64_t end = nanoseconds_now();
    guard locked(lock_);
    ask_again_ = end + 20 * (end - begin);
    if (any) {
        refusals_.forget(everything);
    }
    return any;
}

} // namespace ucx_ib_dmabuf
