// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

namespace ucx_ib_dmabuf {

constexpr span everything{0, UINTPTR_MAX};

engine::nic_id engine::attach(registrar &nic)
{
    guard locked(lock_);
    nic_id id = 0;
    while (id < max_nics && nics_[id].nic != nullptr) {
        ++id;
    }
    if (id < max_nics) {
        nics_[id].nic  = &nic;
        nics_[id].kept = nic.users_keep();
        nic_end_       = std::max(nic_end_, id + 1);
    }
    return id;
}

void engine::detach(nic_id nic)
{
    guard locked(lock_);
    if (nic >= max_nics || nics_[nic].nic == nullptr) {
        return;
    }
    nic_slot &slot = nics_[nic];
    if (!slot.inherited) {
        slot.forget_uses();
        changed_.wait(locked,
                      [&] { return !others_pending(locked, nic, everything); });
        deregister_all(locked, nic);
        changed_.wait(locked, [&] { return slot.busy == 0; });
        writer alone(references_);
        slot.index.clear();
    }
    failures_.forget(nic);
    log_.add({}); // refusals are over
    slot.inherited = false;
    slot.nic       = nullptr;
}

// What is in use is so only by the letter: nobody uses it any more. Releases
// the lock.
void engine::deregister_all(guard &locked, nic_id nic)
{
    batch all;
    nics_[nic].index.each(everything, [&](cached_region *e) { all.push(e); });
    retire_all(locked, &all, cause::detached);
    for (cached_region *e = retired_.oldest(), *newer; e != nullptr;
         e                = newer) {
        newer = e->rest->newer;
        if (e->nic == nic && !e->claimed) {
            retired_.remove(e);
            e->revoked = true;
            claim(e, &all);
        }
    }
    locked.unlock();
    deregister(&all);
    locked.lock();
}

void engine::check_identity()
{
    check_identity_ = true;
    need_each_use();
}

void engine::read_counters(cache_counters *out)
{
    auto value = [](const event_count &what) {
        return what.load(std::memory_order_relaxed);
    };
    guard locked(lock_);
    out->hits = references_.hits() + value(count_.locked_hits) -
                value(count_.false_hits);
    out->misses           = value(count_.misses);
    out->host_lookups     = value(count_.host_lookups);
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
