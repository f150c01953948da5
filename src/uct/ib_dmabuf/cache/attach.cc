// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

namespace ucx_ib_dmabuf {

engine::engine(exporter &memory, const cache_settings &settings)
    : memory_(memory), settings_(settings),
      check_identity_(settings.check_identity), budget_(settings.max_regions)
{
}

engine::~engine()
{
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        if (nics_[nic].verbs != nullptr) {
            detach(nic);
        }
    }
}

engine::nic_id engine::attach(registrar &nic)
{
    guard locked(lock_);
    nic_id id = 0;
    while (id < max_nics && nics_[id].verbs != nullptr) {
        ++id;
    }
    if (id < max_nics) {
        nics_[id].verbs = &nic;
    }
    return id;
}

void engine::detach(nic_id nic)
{
    entry_list all;
    if (nic >= max_nics || nics_[nic].verbs == nullptr) {
        return;
    }
    {
        guard locked(lock_);
        changed_.wait(locked, [&] {
            return !others_in_flight(nic, {0, UINTPTR_MAX});
        });
        leave_all(nic, {0, UINTPTR_MAX}, &all);
    }
    deregister(&all);
    guard locked(lock_);
    nics_[nic].verbs  = nullptr;
    nics_[nic].in_use = false;
}

void engine::read_counters(cache_counters *out)
{
    guard locked(lock_);
    out->hits             = count_.hits;
    out->misses           = count_.misses;
    out->host_lookups     = count_.host_lookups;
    out->registrations    = count_.registrations;
    out->deregistrations  = count_.deregistrations;
    out->exports          = count_.exports;
    out->identity_checks  = count_.identity_checks;
    out->identity_misses  = count_.identity_misses;
    out->invalidations    = count_.invalidations;
    out->evictions        = count_.evictions;
    out->failures         = count_.failures;
    out->regions          = budget_.regions();
    out->registered_bytes = budget_.bytes();
}

} // namespace ucx_ib_dmabuf
