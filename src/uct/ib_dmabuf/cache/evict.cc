// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

// The budget: room is made by evicting idle regions, least recently used first.
namespace ucx_ib_dmabuf {

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

// Whether evicting everything idle would do.
bool engine::idle_enough(guard &, int device, amount lacking)
{
    amount idle;
    for (entry *e = ages_.oldest(); e != nullptr; e = age_list::newer(e)) {
        if (idle.bytes >= lacking.bytes && idle.regions >= lacking.regions) {
            return true;
        }
        if (entries::uses(e) == 0) {
            idle.bytes += e->device == device ? e->length : 0;
            ++idle.regions;
        }
    }
    return idle.bytes >= lacking.bytes && idle.regions >= lacking.regions;
}

// Idle regions that free what is lacking, or as much as there is: those of the
// device and of the NIC for bytes, any for their number. What was used since
// the last look gets a second chance.
void engine::pick_victims(guard &locked, nic_id nic, int device, amount lacking,
                          entry_list *out)
{
    entry *e = ages_.oldest();
    for (size_t steps = 2 * ages_.size();
         steps > 0 && !lacking.nothing() && ages_.size() > 0; --steps) {
        e           = e == nullptr ? ages_.oldest() : e;
        entry *next = age_list::newer(e);
        bool here   = e->device == device || e->nic == nic;
        if (entries::uses(e) != 0 ||
            (lacking.regions == 0 && (lacking.bytes == 0 || !here))) {
            // stays
        } else if (e->marks.fetch_and(~entry::recent) & entry::recent) {
            ages_.remove(e);
            ages_.add(e);
        } else {
            lacking.bytes -= here ? std::min(lacking.bytes, e->length) : 0;
            lacking.regions -= lacking.regions != 0;
            leave(locked, e, out);
        }
        e = next;
    }
}

// Takes the amount from the budget, after evicting what stands in its way;
// evicts nothing if that is not enough.
bool engine::reserve(guard &locked, int device, amount wanted)
{
    for (;;) {
        if (!budget_.possible(device, wanted)) {
            return false;
        }
        amount lacking = budget_.lacking(device, wanted);
        if (lacking.nothing()) {
            budget_.add(device, wanted);
            return true;
        }
        entry_list victims;
        if (idle_enough(locked, device, lacking)) {
            pick_victims(locked, max_nics, device, lacking, &victims);
        }
        if (victims.empty()) {
            return false;
        }
        count(count_.evictions, claim_idle(locked, &victims));
        locked.unlock();
        deregister(&victims);
        locked.lock();
    }
}

// After the device or the NIC said that there is no room: evicts at least that
// many bytes, if so many are idle. False if nothing was.
bool engine::evict(nic_id nic, int device, size_t bytes)
{
    entry_list victims;
    size_t claimed;
    {
        guard locked(lock_);
        pick_victims(locked, nic, device, {bytes, 0}, &victims);
        claimed = claim_idle(locked, &victims);
    }
    count(count_.evictions, claimed);
    deregister(&victims);
    return claimed > 0;
}

} // namespace ucx_ib_dmabuf
