// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

namespace ucx_ib_dmabuf {

constexpr span everything{0, UINTPTR_MAX};

engine::nic_id engine::attach(registrar &nic)
{
    guard locked(lock_);
    nic_id id = 0;
    while (id < max_nics && nics_[id].verbs != nullptr) {
        ++id;
    }
    if (id < max_nics) {
        nics_[id].verbs = &nic;
        nic_end_        = std::max(nic_end_, id + 1);
    }
    return id;
}

void engine::detach(nic_id nic)
{
    entry_list all;
    guard locked(lock_);
    if (nic >= max_nics || nics_[nic].verbs == nullptr) {
        return;
    }
    nic_slot &slot = nics_[nic];
    if (!slot.inherited) {
        slot.serves.reset();
        changed_.wait(locked,
                      [&] { return !others_in_flight(nic, everything); });
        leave_all(locked, nic, everything, &all);
        claim_idle(locked, &all);
        // The rest is in use only by the letter: nobody uses it any more.
        entry *newer = nullptr;
        for (entry *e = lingering_.oldest(); e != nullptr; e = newer) {
            newer = age_list::newer(e);
            if (e->nic == nic) {
                lingering_.remove(e);
                claim(locked, e, &all);
            }
        }
        locked.unlock();
        deregister(&all, true);
        locked.lock();
        changed_.wait(locked, [&] { return slot.busy == 0; });
        slot.map.clear();
    }
    slot.unsupported = {};
    failures_.forget(nic);
    ++changes_;
    slot.inherited = false;
    slot.verbs     = nullptr;
}

void engine::check_identity()
{
    guard locked(lock_);
    check_identity_ = true;
    for (entry *e = ages_.oldest(); e != nullptr; e = age_list::newer(e)) {
        e->set(entry::checked);
    }
}

void engine::read_counters(cache_counters *out)
{
    auto value = [](const event_count &what) {
        return what.load(std::memory_order_relaxed);
    };
    guard locked(lock_);
    out->hits = threads::hits(tally_) - hits_before_ +
                value(count_.locked_hits) - value(count_.false_hits);
    out->misses           = value(count_.misses);
    out->host_lookups     = host_lookups_.total();
    out->registrations    = value(count_.registrations);
    out->deregistrations  = value(count_.deregistrations);
    out->exports          = value(count_.exports);
    out->identity_checks  = value(count_.identity_checks);
    out->identity_misses  = value(count_.identity_misses);
    out->invalidations    = value(count_.invalidations);
    out->evictions        = value(count_.evictions);
    out->failures         = value(count_.failures);
    out->regions          = budget_.regions();
    out->registered_bytes = budget_.bytes();
    out->mapped_bytes     = budget_.mapped_bytes();
}

} // namespace ucx_ib_dmabuf
