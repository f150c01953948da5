// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

namespace ucx_ib_dmabuf {

// Causes that are told once.
enum : unsigned {
    BAD_RANGE       = 1,
    FOREIGN_NIC     = 2,
    ALWAYS_RELEASED = 4,
    NO_ROOM         = 8,
};

// Memory that is released more often than this while it is being registered is
// not used as its owner promised.
constexpr int max_attempts = 64;

void engine::warn_once(unsigned cause, const char *message)
{
    if (settings_.warn && (warned_.fetch_or(cause) & cause) == 0) {
        settings_.warn(message);
    }
}

void engine::add_use(guard &, entry *e)
{
    thread_record *me = threads::prepare();
    if (me != nullptr) {
        if (e->owner != me->index && !LEFT_OUT(shared_by_get)) {
            e->set(entry::shared);
        }
        me->add_use(e->id, 1);
    } else {
        ++entries::links(e).extra_uses;
    }
    e->set(entry::recent);
    entries::check_taken(e);
}

entry *engine::hold_locked(nic_id nic, span request)
{
    guard locked(lock_);
    entry *e = nics_[nic].map.find(request);
    if (e != nullptr) {
        add_use(locked, e);
        count(count_.locked_hits);
    }
    return e;
}

// Whether the entry, which is held and was counted as a hit, is what is there
// now. If not, an event was missed: gives it back.
bool engine::check_hit(entry *e)
{
    if (is_current(e)) {
        return true;
    }
    count(count_.false_hits);
    put(e);
    return false;
}

// Whether the memory of an entry, which is held, is still there; if not, its
// regions leave.
bool engine::is_current(entry *e)
{
    span memory = entries::links(e).memory;
    count(count_.identity_checks);
    if (memory_.is_current(memory.lo, memory.size(), e->identity)) {
        return true;
    }
    count(count_.identity_misses);
    leave_identity(e);
    return false;
}

// Taken, with a mark that needs attention; or lost.
ucs_status_t engine::get_marked(nic_id nic, uintptr_t address, size_t length,
                                entry *e, found result, const region **out)
{
    if (result == found::lost) {
        if (!LEFT_OUT(lost_settle)) {
            settle(e);
        }
        return get_slow(nic, address, length, false, out);
    }
    entries::check_taken(e);
    if (!e->has(entry::recent)) {
        e->set(entry::recent);
    }
    if (e->has(entry::checked) && !check_hit(e)) {
        return get_slow(nic, address, length, false, out);
    }
    *out = e;
    return UCS_OK;
}

// The fast way for what else there is: granules with several regions, high
// addresses, full fences.
ucs_status_t engine::get_again(nic_id nic, uintptr_t address, size_t length,
                               const region **out)
{
    thread_record *me = threads::mine();
    entry *e          = nullptr;
    found result      = found::ask;
    if (me != nullptr && nic < max_nics) {
        result =
            fence::asymmetric
                ? try_hold<fence::cheap, false>(me, nic, address, length, &e)
                : try_hold<fence::full, false>(me, nic, address, length, &e);
    }
    switch (result) {
    case found::yes:
        entries::check_taken(e);
        *out = e;
        return UCS_OK;
    case found::look:
    case found::lost:
        return get_marked(nic, address, length, e, result, out);
    default:
        return get_slow(nic, address, length, result == found::ask, out);
    }
}

// The same for what only find() wants: nothing that has to be asked for.
const region *engine::find_again(nic_id nic, uintptr_t address, size_t length)
{
    thread_record *me = threads::mine();
    if (me == nullptr || nic >= max_nics) {
        return nullptr;
    }
    entry *e = nullptr;
    found result =
        fence::asymmetric
            ? try_hold<fence::cheap, false>(me, nic, address, length, &e)
            : try_hold<fence::full, false>(me, nic, address, length, &e);
    return find_marked(e, result);
}

const region *engine::find_marked(entry *e, found result)
{
    switch (result) {
    case found::lost:
        settle(e);
        return nullptr;
    case found::look:
    case found::yes:
        entries::check_taken(e);
        if (!e->has(entry::recent)) {
            e->set(entry::recent);
        }
        if (!e->has(entry::checked)) {
            return e;
        }
        count(count_.false_hits); // get() counts it
        put(e);
        return nullptr;
    default:
        return nullptr;
    }
}

// Ask: there may be something that the fast way could not take.
ucs_status_t engine::get_slow(nic_id nic, uintptr_t address, size_t length,
                              bool ask, const region **out)
{
    if (length == 0 || length > UINTPTR_MAX - address || nic >= max_nics ||
        nics_[nic].verbs == nullptr) {
        warn_once(BAD_RANGE, "asked for an empty or overflowing range, or "
                             "with a NIC that is not attached");
        return UCS_ERR_INVALID_PARAM;
    }
    if (nics_[nic].inherited) {
        warn_once(FOREIGN_NIC, "a forked process cannot register with what "
                               "its parent has opened");
        return UCS_ERR_NO_DEVICE;
    }
    span request = make_span(address, length);
    if (ask) {
        entry *e = hold_locked(nic, request);
        if (e != nullptr && (!e->has(entry::checked) || check_hit(e))) {
            *out = e;
            return UCS_OK;
        }
    }
    kin known(request);
    for (int attempt = 0; attempt < max_attempts;) {
        ucs_status_t status = miss(nic, request, &known, out);
        if (status == UCS_ERR_NO_ELEM) {
            host_lookups_.add();
            return status;
        }
        if (status == UCS_ERR_EXCEEDS_LIMIT) {
            warn_once(NO_ROOM, "no room for a registration, even with what is "
                               "idle evicted; see the limits on registered "
                               "memory");
        }
        if (status != UCS_ERR_CANCELED && status != UCS_INPROGRESS) {
            count(count_.misses);
            return status;
        }
        attempt += status == UCS_ERR_CANCELED;
    }
    warn_once(ALWAYS_RELEASED, "memory was released again and again while it "
                               "was being registered");
    count(count_.misses);
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

void engine::end(in_flight *work)
{
    {
        guard locked(lock_);
        in_flight **link = &in_flight_;
        while (*link != nullptr && *link != work) {
            link = &(*link)->next;
        }
        if (*link == work) { // not if it was the parent's
            *link = work->next;
        }
    }
    changed_.notify_all();
}

// UCS_ERR_CANCELED: the memory was released meanwhile, look again.
// UCS_INPROGRESS: look again, something has been done.
ucs_status_t engine::miss(nic_id nic, span request, kin *known,
                          const region **out)
{
    extent memory;
    uint64_t time = log_.now();
    ucs_status_t status =
        memory_.describe(known->wider.lo, known->wider.size(), &memory);
    if (status != UCS_OK && known->wider != request) {
        // Not one piece any more: without the rest.
        known->wider = request;
        status       = memory_.describe(request.lo, request.size(), &memory);
    }
    if (status != UCS_OK) {
        return status;
    }
    if (memory.size > UINTPTR_MAX - memory.base ||
        !make_span(memory.base, memory.size).covers(request)) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (!memory.exportable) {
        return UCS_ERR_UNSUPPORTED;
    }
    return take(nic, request, memory, time, known, out);
}

// The hull of the request and of what overlaps its chunks already.
span engine::known_around(nic_id nic, span request, const extent &memory) const
{
    span known  = request;
    span chunks = chunks_of(memory, request, settings_.chunk_size);
    while (entry *e = nics_[nic].map.first_overlap(chunks)) {
        known     = hull(known, e->bytes);
        chunks.lo = e->bytes.hi;
    }
    return known;
}

// What is in the memory's place but under another identity, and was not met.
entry *engine::find_stranger(guard &, const extent &memory, const kin &known)
{
    span place = make_span(memory.base, memory.size);
    if (survey_.has(place, memory.identity)) {
        return nullptr;
    }
    for (nic_id nic = 0; nic < nic_end_; ++nic) {
        span rest = place;
        while (entry *e = nics_[nic].map.first_overlap(rest)) {
            rest.lo = e->bytes.hi;
            if (e->identity != memory.identity && !known.has(e)) {
                return e;
            }
        }
    }
    if (known.count == 0) {
        survey_.add(place, memory.identity);
    }
    return nullptr;
}

// The error that it would come to once more, else UCS_OK.
ucs_status_t engine::known_failure(guard &, nic_id nic,
                                   const extent &memory) const
{
    return nics_[nic].unsupported[budget::place(memory.device)] >=
                   nic_slot::enough
               ? UCS_ERR_UNSUPPORTED
               : failures_.find(memory.identity, nic);
}

// What has failed is tried again after so many requests.
void engine::count_request(guard &, nic_id nic, const extent &memory)
{
    uint8_t &asked = nics_[nic].unsupported[budget::place(memory.device)];
    if (asked >= nic_slot::enough &&
        ++asked == nic_slot::enough + failures::asked_again_after) {
        asked = nic_slot::enough - 1;
    }
    failures_.count_request(memory.identity, nic);
}

// Gives back a stranger. It is there because an event was missed; or because
// it has VMM segments in common with what is asked for now: then the new region
// takes its place, so it has to be as wide.
void engine::meet(entry *e, const extent &memory, kin *known)
{
    if (is_current(e)) {
        if (!known->add(e)) {
            leave_identity(e);
        } else if (!make_span(memory.base, memory.size).covers(e->bytes)) {
            known->wider = hull(known->wider, e->bytes);
        }
    }
    put(e);
}

// Holds what somebody else has published meanwhile, waits for who is about to,
// or makes it. The time is from before the memory was described.
ucs_status_t engine::take(nic_id nic, span request, const extent &memory,
                          uint64_t time, kin *known, const region **out)
{
    in_flight work;
    work.memory = make_span(memory.base, memory.size);
    work.range  = chunks_of(memory, request, settings_.chunk_size);
    work.nics.set(nic);

    guard locked(lock_);
    learn_limit(locked, memory.device);
    if (log_.released_since(time, work.memory) && !LEFT_OUT(log_look)) {
        return UCS_ERR_CANCELED;
    }
    entry *e = find_stranger(locked, memory, *known);
    if (e != nullptr) {
        add_use(locked, e);
        locked.unlock();
        meet(e, memory, known);
        return UCS_INPROGRESS;
    }
    e = nics_[nic].map.find(request);
    if (e != nullptr) {
        add_use(locked, e);
        *out = e;
        return UCS_OK;
    }
    count_request(locked, nic, memory);
    ucs_status_t status = known_failure(locked, nic, memory);
    if (status != UCS_OK) {
        return status;
    }
    if (others_in_flight(nic, work.range)) {
        changed_.wait(locked,
                      [&] { return !others_in_flight(nic, work.range); });
        return UCS_INPROGRESS;
    }
    span around = known_around(nic, request, memory);
    work.next   = in_flight_;
    in_flight_  = &work;
    locked.unlock();

    status = make(nic, request, around, memory, &work, &e);
    end(&work);
    if (status == UCS_OK) {
        *out = e;
        return UCS_OK;
    }
    // Nobody else knows of it any more. An error may have come from that.
    return work.released ? UCS_ERR_CANCELED : status;
}

} // namespace ucx_ib_dmabuf
