// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

namespace ucx_ib_dmabuf {

// Memory that is released more often than this while it is being registered is
// not used as its owner promised.
constexpr int max_attempts = 64;

ucs_status_t engine::get(nic_id nic, uintptr_t address, size_t length,
                         const region **out, cache::effort how)
{
    cached_region *e = find(nic, address, length);
    if (e != nullptr) {
        *out = e;
        return UCS_OK;
    }
    span request = make_span(address, length);
    if (length == 0 || length > UINTPTR_MAX - address || nic >= max_nics ||
        nics_[nic].nic == nullptr) {
        warn("asked for an empty or overflowing range, or with a NIC that is "
             "not attached");
        return UCS_ERR_INVALID_PARAM;
    }
    if (nics_[nic].inherited) {
        warn(
            "a forked process cannot register with what its parent has opened");
        return UCS_ERR_NO_DEVICE;
    }
    ucs_status_t status = UCS_INPROGRESS;
    for (int canceled = 0;
         canceled < max_attempts &&
         (status == UCS_INPROGRESS || status == UCS_ERR_CANCELED);
         canceled += status == UCS_ERR_CANCELED) {
        status = miss(nic, request, how, &e);
    }
    if (status == UCS_ERR_NO_ELEM) {
        count(count_.host_lookups);
        return status;
    }
    count(count_.misses);
    if (status == UCS_ERR_CANCELED) {
        warn("memory was released again and again while it was being "
             "registered");
        status = UCS_ERR_BUSY;
    } else if (status == UCS_ERR_EXCEEDS_LIMIT) {
        warn("no room for a registration, even with what is idle evicted; see "
             "the limits on registered memory");
    }
    trace("acquire", nic, request, status);
    *out = e;
    return status;
}

ucs_status_t engine::miss(nic_id nic, span request, cache::effort how,
                          cached_region **out)
{
    memory_run memory;
    uint64_t time       = log_.now();
    ucs_status_t status = memory.describe(memory_, request);
    if (status != UCS_OK) {
        return status; // the host's memory pays for no more
    }
    pending work(nic, request, how);
    work.memory = std::move(memory);
    if (!aligned(request, granularity_).covers(request)) {
        return UCS_ERR_INVALID_PARAM; // the last page of all
    }
    status = begin(&work, time, out);
    if (status != UCS_OK || *out != nullptr) {
        return status;
    }
    if (work.memory.joins) {
        work.memory.extend(memory_, work.range);
        guard locked(lock_);
        work.range = work.memory.range; // what happens beside it is no matter
    }
    status = make(&work, out);
    end(&work);
    // Nobody else knows of it any more. An error may have come from that.
    return status != UCS_OK && work.released ? UCS_ERR_CANCELED : status;
}

// What somebody else has published meanwhile or is about to; else with nothing,
// that this one does. The time is from before the memory was described.
ucs_status_t engine::begin(pending *work, uint64_t time, cached_region **out)
{
    const memory_run &memory = work->memory;
    nic_id nic               = work->nic;
    guard locked(lock_);
    learn_limit(locked, memory.device);
    if (log_.released_since(time, memory.range) && !LEFT_OUT(log_look)) {
        return UCS_ERR_CANCELED;
    }
    span range =
        range_to_register(memory.range, work->request, settings_.chunk_size);
    if (retire_stale(locked, memory, range)) {
        return UCS_INPROGRESS;
    }
    *out = nics_[nic].index.find(work->request.lo, work->request.size());
    if (*out != nullptr) {
        add_reference(locked, *out);
        return UCS_OK;
    }
    ucs_status_t status = failures_.ask(memory.identity, nic);
    if (status != UCS_OK && !work->persistent) {
        return status;
    }
    work->range = memory.joins
                      ? free_around(locked, nic, memory.range, work->request)
                      : range;
    // Without waiting both register it, and who is later gives its own up.
    if (!deregistering_ && others_pending(locked, nic, work->range)) {
        changed_.wait(
            locked, [&] { return !others_pending(locked, nic, work->range); });
        return UCS_INPROGRESS;
    }
    work->nics.set(nic);
    work->next = pending_;
    pending_   = work;
    return UCS_OK;
}

// What is registered in the range is to be of the memory's identity: else an
// event was missed.
bool engine::retire_stale(guard &locked, const memory_run &memory, span range)
{
    batch stale;
    each_region(locked, range, [&](cached_region *e) {
        span both = intersection(e->bytes, range);
        for (const auto *each = memory.all.first_in(both);
             each != memory.all.end() && each->base < both.hi; ++each) {
            uintptr_t at = std::max(each->base, both.lo);
            if (e->rest->memory.identity_at(at) != each->identity) {
                stale.push(e);
                return;
            }
        }
    });
    if (stale.empty()) {
        return false;
    }
    count(count_.identity_misses);
    const kept_regions kept = kept_of(locked, stale);
    retire_all(locked, &stale, cause::stale);
    locked.unlock();
    ask_back(kept);
    deregister(&stale);
    return true;
}

bool engine::others_pending(guard &, nic_id nic, span range) const
{
    for (pending *work = pending_; work != nullptr; work = work->next) {
        if (work->nics[nic] && work->range.overlaps(range)) {
            return true;
        }
    }
    return false;
}

// How far the registration of some VMM segments may be extended: in the window
// of the request, to where others are registered already.
span engine::free_around(guard &, nic_id nic, span memory, span request) const
{
    span window = window_of(request, settings_.chunk_size);
    span room   = hull(memory, window);
    nics_[nic].index.each(window, [&](const cached_region *e) {
        if (e->bytes.lo < memory.lo) {
            room.lo = std::min(std::max(room.lo, e->bytes.hi), memory.lo);
        }
        if (e->bytes.hi > memory.hi) {
            room.hi = std::max(std::min(room.hi, e->bytes.lo), memory.hi);
        }
    });
    return room;
}

// Undoes what has not become a region; then who waits for it may go on.
void engine::end(pending *work)
{
    registered &what = work->made;
    for (unsigned i = 0; i < what.count; ++i) {
        call_dereg(what.nic[i], what.handle[i], what.range, "not published");
        count(count_.deregistrations);
    }
    {
        guard locked(lock_);
        for (unsigned i = 0; i < what.count; ++i) {
            budget_.remove(what.nic[i], what.range.size());
        }
        if (what.mapped) {
            budget_.unmap(work->memory.device, what.range.size());
        }
        pending **link = &pending_;
        while (*link != nullptr && *link != work) {
            link = &(*link)->next;
        }
        if (*link == work) { // not if it was the parent's
            *link = work->next;
        }
    }
    changed_.notify_all();
}

} // namespace ucx_ib_dmabuf
