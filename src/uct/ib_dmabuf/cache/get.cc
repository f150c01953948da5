// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include <new>

namespace ucx_ib_dmabuf {

entry *engine::find_and_hold(nic_id nic, span request)
{
    guard locked(lock_);
    entry *e = nics_[nic].map.find(request);
    if (e != nullptr) {
        ++e->uses;
        e->recent = true;
    }
    return e;
}

// Whether the entry, which is held, may be given out.
ucs_status_t engine::hit(nic_id nic, span request, entry *e)
{
    if (check_identity_) {
        ++count_.identity_checks;
        if (!memory_.is_current(request.lo, request.size(), e->identity)) {
            // An event was missed. Whatever else is there is as old.
            ++count_.identity_misses;
            invalidate(e->bytes);
            put(e);
            return UCS_ERR_CANCELED;
        }
    }
    ++count_.hits;
    return UCS_OK;
}

ucs_status_t engine::get(nic_id nic, uintptr_t address, size_t length,
                         const region **out)
{
    if (length == 0 || length > UINTPTR_MAX - address || nic >= max_nics ||
        nics_[nic].verbs == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    span request = make_span(address, length);
    // Memory that is released as often as this while it is being registered
    // is not used as its owner promised.
    for (int attempt = 0; attempt < 64; ++attempt) {
        entry *e = find_and_hold(nic, request);
        if (e != nullptr && hit(nic, request, e) == UCS_OK) {
            *out = e;
            return UCS_OK;
        }
        ucs_status_t status;
        try {
            status = miss(nic, request, out);
        } catch (const std::bad_alloc &) {
            status = UCS_ERR_NO_MEMORY;
        }
        if (status != UCS_ERR_CANCELED) {
            return status;
        }
    }
    return UCS_ERR_BUSY;
}

bool engine::others_in_flight(nic_id nic, span range) const
{
    for (in_flight *work = in_flight_; work != nullptr; work = work->next) {
        if (work->nics[nic] && work->range.overlaps(range)) {
            return true;
        }
    }
    return false;
}

void engine::begin(in_flight *work)
{
    work->next = in_flight_;
    in_flight_ = work;
}

void engine::end(in_flight *work)
{
    {
        guard locked(lock_);
        in_flight **link = &in_flight_;
        while (*link != work) {
            link = &(*link)->next;
        }
        *link = work->next;
    }
    changed_.notify_all();
}

// UCS_ERR_CANCELED: look again.
ucs_status_t engine::miss(nic_id nic, span request, const region **out)
{
    extent memory;
    uint64_t time       = log_.now();
    ucs_status_t status = memory_.describe(request.lo, request.size(), &memory);
    if (status != UCS_OK) {
        ++(status == UCS_ERR_NO_ELEM ? count_.host_lookups : count_.misses);
        return status;
    }
    ++count_.misses;
    if (memory.size > UINTPTR_MAX - memory.base ||
        !make_span(memory.base, memory.size).covers(request)) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (!memory.exportable) {
        return UCS_ERR_UNSUPPORTED;
    }
    learn_limit(memory.device);
    return take(nic, request, memory, time, out);
}

// The time is from before the memory was described.
ucs_status_t engine::take(nic_id nic, span request, const extent &memory,
                          uint64_t time, const region **out)
{
    in_flight work;
    work.memory = make_span(memory.base, memory.size);
    work.range  = chunks_of(memory, request, settings_.chunk_size);
    work.nics.set(nic);
    entry_list stale;
    {
        guard locked(lock_);
        if (log_.released_since(time, work.memory)) {
            return UCS_ERR_CANCELED;
        }
        for (nic_id n = 0; n < max_nics; ++n) {
            span rest = work.memory;
            while (entry *e = nics_[n].map.first_overlap(rest)) {
                rest.lo = e->bytes.hi;
                if (e->identity != memory.identity) {
                    ++count_.identity_misses;
                    leave(e, &stale);
                }
            }
        }
        claim_idle(&stale);
        if (nics_[nic].map.find(request) != nullptr) {
            return UCS_ERR_CANCELED;
        }
        if (others_in_flight(nic, work.range)) {
            changed_.wait(locked);
            return UCS_ERR_CANCELED;
        }
        nics_[nic].in_use = true;
        begin(&work);
    }
    deregister(&stale);
    entry *made         = nullptr;
    ucs_status_t status = make(nic, request, memory, &work, &made);
    end(&work);
    if (status == UCS_OK) {
        *out = made;
    } else if (status != UCS_ERR_CANCELED) {
        ++count_.failures;
    }
    return status;
}

} // namespace ucx_ib_dmabuf
