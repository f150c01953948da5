// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <new>

// Start and end, hits, and the publication of a miss.
namespace ucx_ib_dmabuf {

// An owner that releases memory more often than this during its registration
// breaks its promise.
constexpr int max_attempts = 64;

rcache::rcache(exporter &memory, const rcache_settings &settings)
    : memory_(memory), settings_(settings), granularity_(memory.granularity()),
      check_identity_(settings.check_identity),
      each_use_(settings.check_identity || settings.max_regions != SIZE_MAX),
      prefetches_(settings.prefetch), budget_(settings.max_regions)
{
}

rcache::~rcache()
{
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        detach(nic);
    }
    {
        const guard locked(lock_);
        deferred_.stop = true;
    }
    deferred_changed_.notify_all();
    if (deferred_.thread.joinable()) {
        deferred_.thread.join();
    }
}

// Destroys nothing: a destructor would touch all of the parent's data, wait for
// threads that are not in this process, or end the process.
template <typename T>
static void begin_anew(T *what)
{
    new (what) T{};
}

// A forked child has the parent's tables, but not its registrations, and only
// the thread that forked. It starts with an empty cache. The parent's objects
// are abandoned, which costs the same however many there are. An entry's
// generation shows that it is the parent's when it is put back in the child.
//
// No lock is held over a fork: a thread that releases memory would wait for it
// inside an event of UCX. The child could then never acquire the lock of that
// event for writing.
void rcache::forget_parent()
{
    begin_anew(&lock_);
    for (nic_slot &slot : nics_) {
        begin_anew(&slot.index);
        slot.inherited = slot.nic != nullptr;
        slot.used      = {};
        slot.busy      = 0;
    }
    begin_anew(&changed_);
    begin_anew(&deferred_changed_);
    begin_anew(&deferred_);
    for (auto *each : {&lru_, &partly_used_, &in_use_}) {
        begin_anew(each);
    }
    for (entry_list *each : {&unlinked_, &leaving_, &deregistered_}) {
        begin_anew(each);
    }
    begin_anew(&unlinked_index_);
    new (&budget_) budget(settings_.max_regions);
    begin_anew(&failures_);
    begin_anew(&refusals_);
    begin_anew(&predictor_);
    prefetch_    = 0;
    in_progress_ = nullptr;
    ++generation_;
}

rcache::nic_id rcache::attach(registrar &nic)
{
    guard locked(lock_);
    nic_id id = 0;
    while (id < max_nics && nics_[id].nic != nullptr) {
        ++id;
    }
    if (id < max_nics) {
        nics_[id].nic = &nic;
        nic_end_      = std::max(nic_end_, id + 1);
    }
    return id;
}

void rcache::detach(nic_id nic)
{
    guard locked(lock_);
    if (nic >= max_nics || nics_[nic].nic == nullptr) {
        return;
    }
    nic_slot &slot = nics_[nic];
    if (!slot.inherited) {
        slot.used = {};
        changed_.wait(
            locked, [&] { return !others_register(locked, nic, everything); });
        // No operation uses the entries any more, even if they have users.
        entry_chain all;
        slot.index.each(everything, [&](entry *e) {
            unlink(locked, e, cause::detached, &all);
        });
        revoke_if(locked, everything, &all,
                  [nic](entry *e) { return e->nic == nic; });
        locked.unlock();
        deregister(&all);
        locked.lock();
        deregister_waiting(locked);
        changed_.wait(locked, [&] { return slot.busy == 0; });
    }
    failures_.forget(nic);
    refusals_.forget(everything);
    ++room_freed_;
    slot.inherited = false;
    slot.nic       = nullptr;
}

void rcache::check_identity()
{
    check_identity_ = true;
    need_each_use();
}

// Called when users or entries of a group have changed.
void rcache::put_in_list(guard &, export_group *group)
{
    export_group::list *to = group->cached.empty() ? &group->node
                             : group->users == 0   ? &lru_
                             : group->busy < group->cached.size()
                                 ? &partly_used_
                                 : &in_use_;
    if ((group->in != to) || (to == &partly_used_)) {
        to->splice(to->end(), *group->in, group->place);
        group->in       = to;
        group->last_use = ++uses_;
    }
}

void rcache::add_users(guard &locked, entry *e, address_range request,
                       uint32_t change)
{
    const bool was_busy = e->users > 0;
    e->users += change;
    all_segments(e->memory, request, [change](const segment &each, uintptr_t) {
        each.users += change;
        return true;
    });
    if (e->at < stage::leaving) {
        e->group->users += change;
        if (e->at == stage::cached) {
            e->group->busy += (e->users > 0) - was_busy;
        }
        put_in_list(locked, e->group.get());
    }
}

void rcache::acquire(guard &locked, entry *e, address_range request)
{
    add_users(locked, e, request, 1);
    if (std::exchange(e->prefetched, false)) {
        ++nics_[e->nic].used[e->group->device];
        note_first_use(locked, *e);
    }
}

// An allocation counts once, for the first NIC.
void rcache::note_first_use(guard &locked, const entry &e)
{
    const address_range ahead = std::exchange(e.group->ahead, {});
    if (!ahead.empty()) {
        predictor_.note(predictor::fate::used, ahead, true);
        return;
    }
    bool is_first = e.is_allocation;
    each_entry(locked, e.bytes, [&](const entry *other) {
        is_first &= other == &e || other->prefetched;
    });
    if (is_first) {
        predictor_.note(predictor::fate::used, e.bytes);
    }
}

const region *rcache::find(nic_id nic, uintptr_t address,
                           size_t length) noexcept
{
    if (nic >= max_nics) {
        return nullptr;
    }
    entry *e;
    {
        guard locked(lock_);
        e = nics_[nic].index.find(address, length);
        if (e == nullptr) {
            return nullptr;
        }
        acquire(locked, e, make_range(address, length));
    }
    if (check_identity_ && !is_current(*e, make_range(address, length))) {
        put(e, address, length);
        return nullptr;
    }
    process_counters.add("hits");
    return e;
}

// Whether the requested memory is the same. If not, it was released without an
// event, which this call makes good.
bool rcache::is_current(const entry &e, address_range request)
{
    uintptr_t at = 0;
    if (all_segments(e.memory, request,
                     [&](const segment &each, uintptr_t from) {
                         process_counters.add("identity_checks");
                         at = from;
                         return memory_.is_current(from, each.identity);
                     })) {
        return true;
    }
    process_counters.add("identity_misses");
    withdraw({at, at + 1}, cause::stale);
    return false;
}

// The last user of an unlinked entry deregisters it, however large it is: the
// registrar may notify that user's thread of the deregistration.
void rcache::put(const region *used, uintptr_t address, size_t length) noexcept
{
    // Every region is an entry, which is not const.
    auto *e = static_cast<entry *>(const_cast<region *>(used));
    entry_chain last;
    entry_list over; // freed without the lock
    if (used == nullptr) {
        return;
    }
    {
        guard locked(lock_);
        if (e->generation != generation_) {
            return;
        }
        add_users(locked, e, make_range(address, length), UINT32_MAX);
        if (e->users > 0) {
            return;
        }
        if (e->at == stage::unlinked) {
            take_for_dereg(locked, e, &unlinked_, &last);
        } else if (e->at == stage::deregistered) {
            over.splice(over.end(), deregistered_, e->place);
        }
    }
    deregister(&last);
}

ucs_status_t rcache::get(nic_id nic, uintptr_t address, size_t length,
                         const region **out, effort how)
{
    *out = find(nic, address, length);
    if (*out != nullptr) {
        return UCS_OK;
    }
    entry *e              = nullptr;
    address_range request = make_range(address, length);
    if (length == 0 || length > UINTPTR_MAX - address || nic >= max_nics ||
        nics_[nic].nic == nullptr) {
        settings_.warn("asked for an empty or overflowing range, or with a NIC "
                       "that is not attached");
        return UCS_ERR_INVALID_PARAM;
    }
    if (nics_[nic].inherited) {
        settings_.warn("a forked process cannot register with what its parent "
                       "has opened");
        return UCS_ERR_NO_DEVICE;
    }
    ucs_status_t status = UCS_INPROGRESS;
    for (int canceled = 0;
         canceled < max_attempts &&
         (status == UCS_INPROGRESS || status == UCS_ERR_CANCELED);
         canceled += status == UCS_ERR_CANCELED) {
        status = miss(nic, request, how, &e);
    }
    if (status == UCS_ERR_NO_ELEM) {
        return status;
    }
    process_counters.add("misses");
    if (status == UCS_ERR_CANCELED) {
        settings_.warn("memory was released again and again while it was being "
                       "registered");
        status = UCS_ERR_BUSY;
    } else if (status == UCS_ERR_EXCEEDS_LIMIT) {
        settings_.warn("no room for a registration, even with what is idle "
                       "evicted; see the limits on registered memory");
    }
    settings_.trace(
        {"acquire", nullptr, status, nics_[nic].nic, address, length});
    *out = e;
    return status;
}

// Ends a miss. Publishes the entries if the memory is the same as when the work
// began. Other threads no longer wait for it.
ucs_status_t rcache::finish(new_registration *work, ucs_status_t status,
                            entry **out)
{
    entry_chain gone;
    {
        guard locked(lock_);
        // It is not in the list if it is the parent's.
        for (new_registration **link = &in_progress_; *link != nullptr;
             link                    = &(*link)->next) {
            if (*link == work) {
                *link = work->next;
                break;
            }
        }
        // Room may have been given away, or a wait for the thread ended.
        const bool is_unwanted = work->ahead && (each_use_ || !prefetches_);
        if (*out == nullptr && (work->released || is_unwanted)) {
            status = UCS_ERR_CANCELED; // the release may be the cause of errors
        } else if (*out == nullptr && status == UCS_OK) {
            *out = publish(locked, work, &gone);
            // If another thread has published a covering entry meanwhile, the
            // retry finds that in begin().
            status = *out == nullptr ? UCS_INPROGRESS : UCS_OK;
        }
        while (!work->new_entries.empty()) {
            take_for_dereg(locked, &work->new_entries.front(),
                           &work->new_entries, &gone);
        }
    }
    if (work->nics.any()) {
        changed_.notify_all();
    }
    if (!gone.empty()) {
        deregister(&gone);
    }
    return status;
}

// Leaves entries in the list that would lie within another one, and replaces
// entries within them. Returns the entry of the work's NIC, if it is published.
entry *rcache::publish(guard &locked, new_registration *work,
                       entry_chain *replaced)
{
    entry *wanted = nullptr;
    for (auto each = work->new_entries.begin();
         each != work->new_entries.end();) {
        entry *e           = &*each++; // it may leave the list
        entry_index &index = nics_[e->nic].index;
        if (index.find(e->bytes.lo, e->bytes.size()) != nullptr) {
            continue;
        }
        index.each(e->bytes, [&](entry *old) {
            if (e->bytes.covers(old->bytes)) {
                unlink(locked, old, cause::replaced, replaced);
            }
        });
        e->generation = generation_;
        index.insert(e);
        entry_list &cached = e->group->cached;
        cached.splice(cached.end(), work->new_entries, e->place);
        put_in_list(locked, e->group.get());
        if (e->nic == work->nic) {
            wanted = e;
        }
    }
    if (wanted != nullptr && work->ahead) {
        wanted->group->ahead = work->request;
    } else if (wanted != nullptr) {
        acquire(locked, wanted, work->request);
        if (work->persistent) { // other requests fail on a known failure
            failures_.forget(work->memory.identity, work->nic);
        }
    }
    return wanted;
}

} // namespace ucx_ib_dmabuf
