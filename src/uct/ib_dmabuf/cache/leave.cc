// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include "mapping.h"

// How a region goes: it leaves the index, is claimed by whoever finds it
// unused, and that one deregisters it without the lock.
namespace ucx_ib_dmabuf {

void engine::leave(guard &, entry *e, entry_list *out)
{
    nics_[e->nic].map.erase(e, &limbo_);
    ages_.remove(e);
    if (!LEFT_OUT(leaving_mark)) {
        e->set(entry::leaving);
    }
    out->push(e);
}

size_t engine::leave_all(guard &locked, nic_id nic, span range, entry_list *out)
{
    size_t count = 0;
    while (entry *e = nics_[nic].map.first_overlap(range)) {
        range.lo = e->bytes.hi;
        leave(locked, e, out);
        ++count;
    }
    return count;
}

// The regions of the memory of an entry, which the caller holds, leave, with
// every NIC.
void engine::leave_identity(entry *held)
{
    entry_list gone;
    {
        guard locked(lock_);
        for (nic_id nic = 0; nic < nic_end_; ++nic) {
            span rest = held->bytes;
            while (entry *e = nics_[nic].map.first_overlap(rest)) {
                rest.lo = e->bytes.hi;
                if (e->identity == held->identity) {
                    leave(locked, e, &gone);
                }
            }
        }
        claim_idle(locked, &gone);
    }
    deregister(&gone);
}

void engine::claim(guard &, entry *e, entry_list *out)
{
    e->claimed = !LEFT_OUT(claimed_mark);
    ++nics_[e->nic].busy;
    out->push(e);
}

// Leaves in the list what is unused, claimed; the rest lingers. Returns how
// many that are.
size_t engine::claim_idle(guard &locked, entry_list *leaving)
{
    const thread_record *me = threads::mine();
    bool others             = false;
    for (entry *e = leaving->first(); e != nullptr; e = entry_list::next(e)) {
        others |=
            me == nullptr || e->owner != me->index || e->has(entry::shared);
    }
    if (others && !LEFT_OUT(claim_fence)) {
        fence::heavy();
    }
    entry_list idle;
    size_t claimed = 0;
    while (entry *e = leaving->pop()) {
        if (entries::uses(e) == 0) {
            claim(locked, e, &idle);
            ++claimed;
        } else {
            lingering_.add(e);
        }
    }
    *leaving = idle;
    return claimed;
}

// Forced: whoever still holds them does not use them any more; such an entry is
// not reused.
void engine::deregister(entry_list *claimed, bool forced)
{
    if (claimed->empty()) {
        return;
    }
    uint64_t done = 0;
    for (entry *e = claimed->first(); e != nullptr; e = entry_list::next(e)) {
        nics_[e->nic].verbs->dereg(e->handle);
        ++done;
    }
    count(count_.deregistrations, done);
    {
        guard locked(lock_);
        while (entry *e = claimed->pop()) {
            budget_.remove(e->nic, e->length);
            if (mapping::part(e)) {
                budget_.unmap(e->device, e->length);
            }
            --nics_[e->nic].busy;
            ++departed_;
            if (!forced || entries::uses(e) == 0) {
                limbo_.add(e);
            }
        }
    }
    changed_.notify_all();
}

// Somebody gave back an entry that had left the index.
void engine::settle(entry *e)
{
    entry_list last;
    {
        guard locked(lock_);
        if (!entries::ours(e) || !e->has(entry::leaving) || e->claimed ||
            (entries::uses(e) != 0 && !LEFT_OUT(settle_sum))) {
            return;
        }
        lingering_.remove(e);
        claim(locked, e, &last);
        ++changes_;
    }
    deregister(&last);
}

// By a thread that must not without the lock, or has to use full fences.
void engine::put_slow(entry *e)
{
    thread_record *mine = threads::mine();
    if (!fence::asymmetric && mine != nullptr && e->is_of(mine)) {
        return put_as<fence::full>(mine, e);
    }
    {
        guard locked(lock_);
        if (!entries::ours(e)) {
            return;
        }
        entries::check_given_back(e);
        thread_record *me = threads::prepare();
        if (me != nullptr) {
            if (e->owner != me->index && !LEFT_OUT(shared_by_put)) {
                e->set(entry::shared);
            }
            me->add_use(e->id, -1);
        } else {
            --entries::links(e).extra_uses;
        }
    }
    settle(e);
}

void engine::invalidate(span range)
{
    entry_list gone;
    {
        guard locked(lock_);
        log_.add(range);
        failures_.forget(range);
        ++changes_;
        for (in_flight *work = in_flight_; work != nullptr; work = work->next) {
            work->released |=
                work->memory.overlaps(range) && !LEFT_OUT(released_mark);
        }
        size_t left = 0;
        for (nic_id nic = 0; nic < nic_end_; ++nic) {
            left += leave_all(locked, nic, range, &gone);
        }
        if (left == 0) {
            return;
        }
        count(count_.invalidations, left);
        claim_idle(locked, &gone);
    }
    deregister(&gone);
}

} // namespace ucx_ib_dmabuf
