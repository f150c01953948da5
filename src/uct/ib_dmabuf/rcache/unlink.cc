// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <csignal>
#include <cstring>
#include <exception>

// An entry is unlinked, that is, removed from the index. The thread that finds
// it unused then takes it, and deregisters it without the lock.
namespace ucx_ib_dmabuf {

constinit thread_local bool rcache::deregistering_ = false;

// Memory that was registered ahead was not used so far.
void rcache::forget_ahead(guard &, export_group *group, bool is_released)
{
    const address_range ahead = std::exchange(group->ahead, {});
    if (!ahead.empty()) {
        process_counters.add("prefetches_unused", is_released);
        predictor_.note(is_released ? predictor::fate::unused
                                    : predictor::fate::unknown,
                        ahead, true);
    }
}

void rcache::unlink(guard &locked, entry *e, cause why, entry_chain *unused)
{
    export_group &group = *e->group;
    nics_[e->nic].index.erase(e);
    e->why = why;
    forget_ahead(locked, &group, why == cause::released);
    if (e->users == 0) {
        take_for_dereg(locked, e, &group.cached, unused);
    } else {
        e->at = stage::unlinked;
        --group.busy;
        unlinked_.splice(unlinked_.end(), group.cached, e->place);
        unlinked_index_.insert(e);
    }
    put_in_list(locked, &group);
}

void rcache::take_for_dereg(guard &locked, entry *e, entry_list *from,
                            entry_chain *out)
{
    if (e->at == stage::unlinked) {
        unlinked_index_.erase(e);
        e->group->users -= e->users; // if it is revoked
        put_in_list(locked, e->group.get());
    }
    leaving_.splice(leaving_.end(), *from, e->place);
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
    settings_.trace({"deregister", names[static_cast<size_t>(e.why)], UCS_OK,
                     &nic, e.address, e.length});
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

// Marks the released parts. Returns whether all are lost: then users only cache
// the region. Operations may be under way on a part that is left.
static bool lose(entry *e, address_range released)
{
    const segment *const end = e->memory.data() + e->memory.size();
    all_segments(e->memory, intersection(e->bytes, released),
                 [&](const segment &each, uintptr_t) {
                     const segment *next      = &each + 1;
                     const address_range part = intersection(
                         e->bytes,
                         {each.base, next == end ? UINTPTR_MAX : next->base});
                     if (!each.lost && released.covers(part)) {
                         each.lost = true;
                         --e->parts_left;
                     }
                     return true;
                 });
    return e->parts_left == 0;
}

// For events, and for those that were missed.
void rcache::withdraw(address_range range, cause why, bool is_released)
{
    departing gone;
    if (range.empty()) {
        return;
    }
    {
        guard locked(lock_);
        failures_.forget(range);
        refusals_.forget(range);
        predictor_.note_release(range);
        ++room_freed_;
        for (auto *work = in_progress_; work != nullptr; work = work->next) {
            work->note_event(range);
        }
        each_entry(locked, range, [&](entry *e) {
            if (range == everything) {
                forget_ahead(locked, e->group.get(), false);
            }
            expel(locked, e, why, &gone);
            process_counters.add("invalidations");
        });
        if (why == cause::released) {
            revoke_if(locked, range, &gone.unused, [&](entry *e) {
                return is_replaced(*e, range) ||
                       (is_released && lose(e, range));
            });
        }
    }
    depart(&gone);
}

// Users of the entries have an operation under way, or are asked to drop them.
void rcache::drop(const char *device)
{
    departing gone;
    {
        guard locked(lock_);
        for (nic_id nic = 0; nic < nic_end_; ++nic) {
            const registrar *attached = nics_[nic].nic;
            if (attached == nullptr || strcmp(attached->name(), device) != 0) {
                continue;
            }
            for (auto *work = in_progress_; work != nullptr;
                 work       = work->next) {
                work->released |= work->nics[nic];
            }
            nics_[nic].used = {};
            nics_[nic].index.each(everything, [&](entry *e) {
                expel(locked, e, cause::failed, &gone);
            });
        }
    }
    depart(&gone);
}

// Users may cache entries, which hides their uses. They are asked to drop
// entries that must not be used any more, or that take room. They also drop
// cached memory in between, and register it again.

// The NIC stays attached until drop_from_ucp_cache() returns.
void rcache::note(guard &, const entry &e, departing *out)
{
    nics_[e.nic].busy += !out->nics[e.nic];
    out->nics.set(e.nic);
    out->range = hull(out->range, e.bytes);
}

// Removes the entry from the index, and in depart() from its users' caches.
void rcache::expel(guard &locked, entry *e, cause why, departing *out)
{
    note(locked, *e, out);
    unlink(locked, e, why, &out->unused);
}

void rcache::depart(departing *gone)
{
    for (nic_id nic = 0; gone->nics.any(); ++nic) {
        if (gone->nics[nic]) {
            nics_[nic].nic->drop_from_ucp_cache(gone->range.lo,
                                                gone->range.size());
            gone->nics.reset(nic);
            guard locked(lock_);
            --nics_[nic].busy;
            changed_.notify_all();
        }
    }
    deregister_soon(&gone->unused);
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
        for (const auto *groups : {&lru_, &partly_used_, &in_use_}) {
            for (const export_group *group : *groups) {
                for (const entry &e : group->cached) {
                    note(locked, e, &cached);
                }
            }
        }
    }
    depart(&cached);
}

// A large deregistration would noticeably delay the thread that releases the
// memory, so a thread of the cache does it at once.
void rcache::deregister_soon(entry_chain *taken)
{
    size_t bytes = 0;
    for (const entry *e = taken->first; e != nullptr; e = e->next) {
        bytes += e->length;
    }
    if (bytes < settings_.deferred_size || !defer(taken)) {
        deregister(taken);
    }
}

// Returns false if there is no thread for it.
bool rcache::defer(entry_chain *taken)
{
    guard locked(lock_);
    if (!start_thread(locked)) {
        return false;
    }
    while (entry *e = taken->pop()) {
        deferred_.waiting.push(e);
    }
    deferred_changed_.notify_all();
    return true;
}

// Starts the cache's thread, which handles no signal, unless it runs. Returns
// false if it cannot, if it is over, or if another thread is starting it.
bool rcache::start_thread(guard &locked)
{
    if (deferred_.thread.joinable() || deferred_.over) {
        return !deferred_.over;
    }
    if (std::exchange(deferred_.starting, true)) {
        return false;
    }
    locked.unlock();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread made;
    try {
        if (settings_.watch_exit()) {
            made = std::thread([this] { run_deferred(); });
        }
    } catch (const std::exception &) {
        // None: the caller deregisters.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    locked.lock();
    deferred_.starting = false;
    deferred_.thread   = std::move(made);
    return deferred_.thread.joinable() && !deferred_.over;
}

void rcache::run_deferred()
{
    const bool may_prefetch = settings_.begin_thread();
    deregistering_          = true;
    guard locked(lock_);
    prefetches_ = prefetches_ && may_prefetch;
    for (;;) {
        deferred_changed_.wait(locked, [this] {
            return deferred_.stop || !deferred_.waiting.empty() ||
                   (prefetches_ && predictor_.has_next());
        });
        if (deferred_.waiting.empty()) {
            if (deferred_.stop) {
                return;
            }
            prefetch(locked);
            continue;
        }
        entry_chain now = std::exchange(deferred_.waiting, {});
        ++batches_;
        deferred_.busy = true;
        locked.unlock();
        deregister(&now);
        locked.lock();
        deferred_.busy = false;
    }
}

// While the thread registers ahead.
void rcache::deregister_waiting(guard &locked)
{
    if (prefetch_ % 2 == 0) {
        return; // the thread is about to
    }
    entry_chain waiting = std::exchange(deferred_.waiting, {});
    locked.unlock();
    deregister(&waiting);
    locked.lock();
}

bool rcache::flush()
{
    static constinit thread_local uint64_t seen = 0;
    guard locked(lock_);
    // Memory may have been released while it was registered ahead.
    wait_for_prefetch(locked);
    const bool waited = wait_for_leaving(locked);
    // Or it was over just before this call.
    return std::exchange(seen, batches_) != batches_ || waited;
}

} // namespace ucx_ib_dmabuf
