// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

// The budget: room is made by evicting idle regions, least recently used first.
namespace ucx_ib_dmabuf {

void engine::learn_limit(int device)
{
    {
        guard locked(lock_);
        if (budget_.knows(device)) {
            return;
        }
    }
    // Asks the outside world: without the lock.
    size_t bytes = settings_.max_bytes ? settings_.max_bytes(device) : SIZE_MAX;
    guard locked(lock_);
    budget_.set_max_bytes(device, bytes);
}

// Idle regions that free at least what is lacking; none if there aren't
// enough. Those of the device count for bytes, any for the number. With
// nic != max_nics regions of that NIC count like those of the device.
void engine::pick_victims(guard &, nic_id nic, int device, amount lacking,
                          entry_list *out, amount *freed)
{
    amount found;
    entry_list picked;
    // Twice around at most: the first time gives the recent ones a chance.
    entry *last = nullptr;
    for (int round = 0; round < 2; ++round) {
        entry *e = ages_.oldest();
        last     = nullptr;
        while (
            e != nullptr && e != last &&
            (found.bytes < lacking.bytes || found.regions < lacking.regions)) {
            entry *newer = e->newer;
            bool here    = e->device == device || e->nic == nic;
            if (e->uses == 0 && (here || found.regions < lacking.regions)) {
                if (e->recent) {
                    e->recent = false;
                    ages_.remove(e);
                    ages_.add(e);
                    last = last == nullptr ? e : last;
                } else {
                    found.bytes += here ? e->length : 0;
                    found.regions++;
                    leave(e, &picked);
                }
            }
            e = newer;
        }
    }
    *out   = picked;
    *freed = found;
}

// Takes the amount from the budget, after evicting what stands in its way.
ucs_status_t engine::reserve(int device, amount wanted)
{
    entry_list victims;
    guard locked(lock_);
    if (!budget_.possible(device, wanted)) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    amount lacking = budget_.lacking(device, wanted, {});
    if (lacking.bytes != 0 || lacking.regions != 0) {
        amount freed;
        pick_victims(locked, max_nics, device, lacking, &victims, &freed);
        claim_idle(&victims);
    }
    locked.unlock();
    for (entry *e = victims.first; e != nullptr; e = e->next) {
        ++count_.evictions;
    }
    deregister(&victims);
    locked.lock();
    lacking = budget_.lacking(device, wanted, {});
    if (lacking.bytes != 0 || lacking.regions != 0) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    budget_.add(device, wanted);
    return UCS_OK;
}

// After the device or the NIC said that there is no room: evicts at least that
// many bytes. False if nothing was idle.
bool engine::evict(nic_id nic, int device, size_t bytes)
{
    entry_list victims;
    {
        guard locked(lock_);
        amount freed;
        pick_victims(locked, nic, device, {bytes, 0}, &victims, &freed);
        claim_idle(&victims);
    }
    bool any = victims.first != nullptr;
    for (entry *e = victims.first; e != nullptr; e = e->next) {
        ++count_.evictions;
    }
    deregister(&victims);
    return any;
}

} // namespace ucx_ib_dmabuf
