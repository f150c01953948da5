// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include "mapping.h"

// How a region goes: it is retired, that is, leaves the index; whoever finds it
// unused then claims it, and deregisters it without the lock.
namespace ucx_ib_dmabuf {

UCX_IB_DMABUF_PER_THREAD(bool) engine::deregistering_;

static const char *name_of(cause why)
{
    switch (why) {
    case cause::released:
        return "released";
    case cause::stale:
        return "released, and no event told";
    case cause::evicted:
        return "evicted";
    case cause::replaced:
        return "replaced";
    case cause::detached:
        return "detached";
    case cause::failed:
        return "of no use";
    default:
        return "";
    }
}

static void tell_why(registrar &nic, const cached_region &e)
{
    if (e.why == cause::evicted) {
        nic.count_end(e.device, ending::evicted);
    } else if (e.why == cause::released || e.why == cause::stale) {
        nic.count_end(e.device, ending::released);
    }
}

void engine::retire(writer &, cached_region *e, cause why)
{
    nics_[e->nic].index.erase(e);
    lru_.remove(e);
    e->retired = !LEFT_OUT(retired_mark);
    e->why     = why;
}

// Under the lock.
void engine::claim(cached_region *e, batch *out)
{
    e->claimed     = !LEFT_OUT(claimed_mark);
    e->rest->claim = ++claims_;
    leaving_.add(e);
    ++nics_[e->nic].busy;
    out->push(e);
}

// Leaves in the batch what is unused, claimed, or to be revoked as all of its
// memory was released. Returns how many that are. Nobody takes what was
// retired: a sum that is not zero for whoever is giving it back is added up
// again by that one, under the lock.
size_t engine::claim_unused(guard &locked, batch *retired, span released)
{
    batch unused;
    size_t count = 0;
    while (cached_region *e = retired->pop()) {
        if (!is_idle(locked, e) && !LEFT_OUT(last_sum)) {
            if (!nics_[e->nic].kept || !released.covers(e->bytes)) {
                retired_.add(e);
                continue;
            }
            e->revoked = true;
        }
        claim(e, &unused);
        ++count;
    }
    *retired = unused;
    return count;
}

// What was chosen is retired, and claimed if it is unused; only that stays in
// the batch. Returns how many that are.
size_t engine::retire_all(guard &locked, batch *chosen, cause why,
                          span released)
{
    if (chosen->empty()) {
        return 0;
    }
    {
        writer alone(references_);
        for (cached_region *e : *chosen) {
            retire(alone, e, why);
        }
    }
    return claim_unused(locked, chosen, released);
}

void engine::call_dereg(nic_id nic, void *handle, span range, const char *why)
{
    const bool nested = deregistering_;
    deregistering_    = true;
    trace("deregister", nic, range, UCS_OK, why);
    nics_[nic].nic->dereg(handle);
    deregistering_ = nested;
}

void engine::deregister(batch *claimed)
{
    if (claimed->empty()) {
        return;
    }
    unsigned done             = 0;
    const uint32_t generation = generation_;
    for (cached_region *e : *claimed) {
        tell_why(*nics_[e->nic].nic, *e);
        call_dereg(e->nic, e->handle, make_span(e->address, e->length),
                   name_of(e->why));
        // Whom it told has forked, and this is the child: all of it is the
        // parent's.
        if (generation_ != generation) {
            return;
        }
        ++done;
    }
    count(count_.deregistrations, done);
    {
        guard locked(lock_);
        while (cached_region *e = claimed->pop()) {
            budget_.remove(e->nic, e->length);
            if (mapping::part(e)) {
                budget_.unmap(e->device, e->length);
            }
            leaving_.remove(e);
            --nics_[e->nic].busy;
            give(locked, e);
        }
    }
    changed_.notify_all();
}

// To the pool, what is deregistered; what was revoked once nobody has it.
void engine::give(guard &locked, cached_region *e)
{
    if (!e->revoked || is_idle(locked, e)) {
        pool_.give(e);
        return;
    }
    e->ended = true;
    retired_.add(e);
}

bool engine::is_revoked(const cached_region *e)
{
    guard locked(lock_);
    return e->revoked;
}

// Somebody gave back a region that had been retired. The last one deregisters
// it, however large: the registrar may tell that user's thread that it is over.
void engine::last_reference(cached_region *e) noexcept
{
    batch last;
    {
        guard locked(lock_);
        if (e->rest->generation != generation_ || !e->retired ||
            (e->claimed && !e->ended)) {
            return;
        }
        retired_.remove(e);
        if (e->ended) {
            give(locked, e);
            return;
        }
        last.push(e);
        claim_unused(locked, &last);
    }
    deregister(&last);
}

void engine::invalidate(span range, bool surely)
{
    batch gone;
    kept_regions kept;
    {
        guard locked(lock_);
        log_.add(range);
        failures_.forget(range);
        for (pending *work = pending_; work != nullptr; work = work->next) {
            work->released |=
                work->range.overlaps(range) && !LEFT_OUT(released_mark);
        }
        size_t found = 0;
        each_region(locked, range, [&](cached_region *e) {
            gone.push(e);
            ++found;
        });
        if (found == 0) {
            return;
        }
        count(count_.invalidations, found);
        kept = kept_of(locked, gone);
        retire_all(locked, &gone, cause::released, surely ? range : span{});
    }
    trace("invalidate", max_nics, range);
    ask_back(kept);
    deregister_soon(&gone);
}

// Users that keep some of it have an operation under way, or are asked back.
void engine::drop(nic_id nic)
{
    constexpr span everything{0, UINTPTR_MAX};
    batch gone;
    kept_regions kept;
    if (nic >= max_nics) {
        return; // there was no place for it
    }
    {
        guard locked(lock_);
        for (pending *work = pending_; work != nullptr; work = work->next) {
            work->released |= work->nics[nic] && !LEFT_OUT(dropped_mark);
        }
        nics_[nic].index.each(everything,
                              [&](cached_region *e) { gone.push(e); });
        if (gone.empty()) {
            return;
        }
        kept = kept_of(locked, gone);
        retire_all(locked, &gone, cause::failed);
    }
    trace("drop", nic, everything);
    ask_back(kept);
    deregister_soon(&gone);
}

} // namespace ucx_ib_dmabuf
