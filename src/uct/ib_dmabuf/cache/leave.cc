// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

// How a region goes: it leaves the index, is claimed by whoever finds it
// unused, and that one deregisters it without the lock.
namespace ucx_ib_dmabuf {

void engine::leave(entry *e, entry_list *out)
{
    nics_[e->nic].map.erase(e);
    ages_.remove(e);
    e->leaving = true;
    out->push(e);
}

void engine::leave_all(nic_id nic, span range, entry_list *out)
{
    while (entry *e = nics_[nic].map.first_overlap(range)) {
        leave(e, out);
    }
}

void engine::claim_idle(entry_list *leaving)
{
    entry_list idle;
    while (entry *e = leaving->pop()) {
        if (e->uses == 0) {
            e->claimed = true;
            idle.push(e);
        }
    }
    *leaving = idle;
}

void engine::deregister(entry_list *claimed, bool account)
{
    while (entry *e = claimed->pop()) {
        nics_[e->nic].verbs->dereg(e->handle);
        ++count_.deregistrations;
        if (account) {
            guard locked(lock_);
            budget_.remove(e->device, {e->length, 1});
        }
        delete e;
    }
}

void engine::put(entry *used)
{
    entry_list idle;
    {
        guard locked(lock_);
        if (--used->uses > 0 || !used->leaving || used->claimed) {
            return;
        }
        used->claimed = true;
        idle.push(used);
    }
    deregister(&idle);
}

void engine::invalidate(span range)
{
    entry_list gone;
    {
        guard locked(lock_);
        log_.add(range);
        for (in_flight *work = in_flight_; work != nullptr; work = work->next) {
            work->released |= work->memory.overlaps(range);
        }
        for (nic_id nic = 0; nic < max_nics; ++nic) {
            if (nics_[nic].verbs != nullptr) {
                leave_all(nic, range, &gone);
            }
        }
        for (entry *e = gone.first; e != nullptr; e = e->next) {
            ++count_.invalidations;
        }
        claim_idle(&gone);
    }
    deregister(&gone);
}

} // namespace ucx_ib_dmabuf
