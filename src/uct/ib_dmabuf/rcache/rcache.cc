// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <new>
#include <uct/ib_dmabuf/fork.h>

// Start and end of caches, NICs and forked children.
namespace ucx_ib_dmabuf {

static std::mutex caches_lock;
static rcache *caches = nullptr;

// A forked child has the parent's tables, but not its registrations, and only
// the thread that forked. It starts with an empty cache. The parent's objects
// are abandoned, which costs the same however many there are. An entry's
// generation shows that it is the parent's when it is put back in the child.
//
// No lock is held over a fork: a thread that releases memory would wait for it
// inside an event of UCX. The child could then never acquire the lock of that
// event for writing.
void rcache::forget_all()
{
    new (&caches_lock) std::mutex;
    for (rcache *each = caches; each != nullptr; each = each->next_) {
        each->forget();
    }
}

rcache::rcache(exporter &memory, const rcache_settings &settings)
    : memory_(memory), settings_(settings), granularity_(memory.granularity()),
      check_identity_(settings.check_identity),
      each_use_(settings.check_identity || settings.max_regions != SIZE_MAX),
      budget_(settings.max_regions)
{
    at_fork<nullptr, forget_all>();
    const std::lock_guard<std::mutex> locked(caches_lock);
    next_ = std::exchange(caches, this);
}

rcache::~rcache()
{
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        detach(nic);
    }
    stop_deferred();
    const std::lock_guard<std::mutex> locked(caches_lock);
    rcache **link = &caches;
    while (*link != this) {
        link = &(*link)->next_;
    }
    *link = next_;
}

// Destroys nothing: a destructor would touch all of the parent's data, wait for
// threads that are not in this process, or end the process.
template <typename T>
static void begin_anew(T *what)
{
    new (what) T{};
}

void rcache::forget()
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
    begin_anew(&lru_);
    begin_anew(&unlinked_);
    begin_anew(&leaving_);
    begin_anew(&deregistered_);
    new (&budget_) budget(settings_.max_regions);
    begin_anew(&failures_);
    begin_anew(&refusals_);
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
        revoke_if(locked, &all, [nic](entry *e) { return e->nic == nic; });
        locked.unlock();
        deregister(&all);
        locked.lock();
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

} // namespace ucx_ib_dmabuf
