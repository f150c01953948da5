// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include "mapping.h"
#include <unistd.h>

// Making a registration, without the lock; then publishing it.
namespace ucx_ib_dmabuf {

static bool lacks_room(ucs_status_t status)
{
    return status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT;
}

namespace {

// The exporter's descriptor, until the NICs have what they need of it.
class exported_fd {
public:
    exported_fd() = default;
    ~exported_fd()
    {
        if (fd >= 0) {
            close(fd);
        }
    }
    exported_fd(const exported_fd &)            = delete;
    exported_fd &operator=(const exported_fd &) = delete;

    int fd = -1;
};

} // namespace

// Not by itself in a while: what UCX is to hear again is that there is no room,
// that somebody else is busy, or that the memory went.
static bool is_permanent(ucs_status_t status)
{
    return status != UCS_OK && status != UCS_ERR_BUSY &&
           status != UCS_ERR_CANCELED && !lacks_room(status);
}

// The other NICs that profit from this export: those that have served the GPU,
// have nothing in the range, and need nobody to leave. Takes room for them; the
// mapping they share.
nic_set engine::add_companions(guard &locked, nic_id nic, span range,
                               const extent &memory)
{
    int device = budget::place(memory.device);
    nic_set result;
    for (nic_id other = 0; other < nic_end_; ++other) {
        if (other != nic && nics_[other].serves[device] &&
            known_failure(locked, other, memory) == UCS_OK &&
            nics_[other].map.first_overlap(range) == nullptr &&
            !others_in_flight(other, range) &&
            budget_.lacking(device, {0, 1}).nothing()) {
            budget_.add(other, range.size());
            result.set(other);
        }
    }
    return result;
}

ucs_status_t engine::export_and_register(nic_id nic, span range,
                                         const nic_set &others,
                                         registered *result)
{
    exported_fd dmabuf;
    size_t offset = 0;
    ucs_status_t status =
        memory_.export_range(range.lo, range.size(), &dmabuf.fd, &offset);
    if (status != UCS_OK) {
        count(count_.failures);
        result->by_memory = true;
        return status;
    }
    result->by_memory = false;
    count(count_.exports);
    auto add = [&](nic_id with) {
        void *handle     = nullptr;
        ucs_status_t got = nics_[with].verbs->reg(dmabuf.fd, offset, range.lo,
                                                  range.size(), &handle);
        if (got == UCS_OK) {
            result->nic[result->count]      = with;
            result->handle[result->count++] = handle;
            count(count_.registrations);
        } else {
            count(count_.failures);
        }
        return got;
    };
    status = add(nic);
    for (nic_id other = 0; status == UCS_OK && other < max_nics; ++other) {
        // Whatever happens to the others is their own matter: they try again
        // when they are asked.
        if (others[other]) {
            add(other);
        }
    }
    return status;
}

// Whether the bytes take the place of something that is more.
bool engine::displaces(guard &, nic_id nic, span bytes) const
{
    span rest = bytes;
    while (entry *e = nics_[nic].map.first_overlap(rest)) {
        rest.lo = e->bytes.hi;
        if (!bytes.covers(e->bytes)) {
            return true;
        }
    }
    return false;
}

// Whether that need not or cannot leave for it.
bool engine::spares(guard &, nic_id nic, span bytes, amount lacking) const
{
    span rest = bytes;
    while (entry *e = nics_[nic].map.first_overlap(rest)) {
        rest.lo = e->bytes.hi;
        if (lacking.nothing() || !mapping::idle(e)) {
            return true;
        }
    }
    return false;
}

// Reserves room for the range and for companions. What has a region already
// loses none of it, unless it has to go for want of room: then a smaller range
// is as good, and the last one need not be published.
ucs_status_t engine::prepare(nic_id nic, span range, bool last,
                             const extent &memory, in_flight *work,
                             evicted *gone, nic_set *others)
{
    guard locked(lock_);
    int device = memory.device;
    span bytes = intersection(range, make_span(memory.base, memory.size));
    if (!last && displaces(locked, nic, bytes) &&
        spares(locked, nic, bytes,
               budget_.lacking(device, {range.size(), 1}))) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    if (!reserve(locked, nic, device, range)) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    ucs_status_t status = may_fit(locked, nic, device, range.size(), gone);
    if (status == UCS_OK && !last && displaces(locked, nic, bytes)) {
        status = UCS_ERR_EXCEEDS_LIMIT;
    }
    if (work->released) {
        status = UCS_ERR_CANCELED;
    }
    if (status != UCS_OK) {
        budget_.remove(nic, range.size());
        budget_.unmap(device, range.size());
        return status;
    }
    note_attempt(locked, nic, device, gone);
    *others    = add_companions(locked, nic, range, memory);
    work->nics = *others;
    work->nics.set(nic);
    return UCS_OK;
}

// Room for the range, then the registration; once more where there was no room
// and something could be evicted.
ucs_status_t engine::try_range(nic_id nic, span range, bool last,
                               const extent &memory, in_flight *work,
                               evicted *gone, registered *result)
{
    nic_set with;
    result->by_memory   = false;
    ucs_status_t status = prepare(nic, range, last, memory, work, gone, &with);
    if (status != UCS_OK) {
        return status;
    }
    result->range = range;
    do {
        status = export_and_register(nic, range, with, result);
    } while (lacks_room(status) &&
             make_room(nic, memory.device, range.size(), status, gone));
    result->mapped = result->count > 0;
    with.set(nic);
    guard locked(lock_);
    for (unsigned i = 0; i < result->count; ++i) {
        with.reset(result->nic[i]);
    }
    for (nic_id each = 0; each < nic_end_; ++each) {
        if (with[each]) {
            budget_.remove(each, range.size());
        }
    }
    if (!result->mapped) {
        budget_.unmap(memory.device, range.size());
    }
    if (status == UCS_OK && in_flight_ == work && work->next == nullptr) {
        found_room(locked, nic, memory.device);
    }
    return status;
}

void engine::undo(const extent &memory, registered *what)
{
    for (unsigned i = 0; i < what->count; ++i) {
        nics_[what->nic[i]].verbs->dereg(what->handle[i]);
        count(count_.deregistrations);
    }
    guard locked(lock_);
    for (; what->count > 0; --what->count) {
        budget_.remove(what->nic[what->count - 1], what->range.size());
    }
    if (what->mapped) {
        budget_.unmap(memory.device, what->range.size());
    }
}

// Where events are missed the memory may have been replaced while it was being
// exported.
bool engine::still_current(const extent &memory)
{
    if (!check_identity_) {
        return true;
    }
    count(count_.identity_checks);
    if (memory_.is_current(memory.base, memory.size, memory.identity)) {
        return true;
    }
    count(count_.identity_misses);
    return false;
}

// nullptr without memory.
entry *engine::make_entry(guard &, const extent &memory, const registered &what,
                          unsigned i)
{
    thread_record *me = threads::prepare();
    entry *e          = me == nullptr ? nullptr : pool_.take();
    if (e == nullptr) {
        return nullptr;
    }
    e->address  = what.range.lo;
    e->length   = what.range.size();
    e->handle   = what.handle[i];
    e->bytes    = intersection(what.range, make_span(memory.base, memory.size));
    e->identity = memory.identity;
    entries::links(e).memory = make_span(memory.base, memory.size);
    e->owner                 = me->index;
    e->nic                   = static_cast<uint16_t>(what.nic[i]);
    e->device = static_cast<int16_t>(budget::place(memory.device));
    if (check_identity_) {
        e->set(entry::checked);
    }
    return e;
}

// Into the index, in place of what it overlaps. False without memory.
bool engine::insert(guard &locked, entry *e, entry_list *replaced)
{
    leave_all(locked, e->nic, e->bytes, replaced);
    survey_.forget_others(entries::links(e).memory, e->identity);
    if (!nics_[e->nic].map.insert(e, &limbo_)) {
        return false;
    }
    ages_.add(e);
    return true;
}

// If the memory is still what it was when the work began. Takes out of `what`
// all that has become an entry; the rest is to be undone.
ucs_status_t engine::publish(nic_id nic, const extent &memory, in_flight *work,
                             registered *what, entry **out)
{
    entry_list replaced;
    {
        guard locked(lock_);
        if (work->released && !LEFT_OUT(released_look)) {
            return UCS_ERR_CANCELED;
        }
        unsigned left = 0;
        entry *made   = nullptr;
        for (unsigned i = 0; i < what->count; ++i) {
            entry *e    = make_entry(locked, memory, *what, i);
            bool wanted = e != nullptr && e->nic == nic;
            bool shown  = e != nullptr && !displaces(locked, e->nic, e->bytes);
            if (shown && !insert(locked, e, &replaced)) {
                shown = wanted = false;
            }
            if (shown || wanted) {
                mapping::join(e, made);
                made = e;
            } else {
                what->nic[left]      = what->nic[i];
                what->handle[left++] = what->handle[i];
                if (e != nullptr) {
                    limbo_.add(e); // somebody may have seen it
                }
            }
            if (wanted) {
                add_use(locked, e);
                e->marks.fetch_and(~entry::recent);
                *out = e;
            }
            if (wanted && !shown) {
                // For this one request: it would hide more than it serves.
                e->set(entry::leaving);
                lingering_.add(e);
            }
        }
        what->count = left;
        what->mapped &= made == nullptr;
        nics_[nic].serves.set(budget::place(memory.device));
        claim_idle(locked, &replaced);
    }
    deregister(&replaced);
    return *out != nullptr ? UCS_OK : UCS_ERR_NO_MEMORY;
}

// So that it is not tried with each message. Whether a GPU and a NIC work
// together at all shows when they first try; afterwards it is the memory, and
// one allocation may be odd then, too.
void engine::note_failure(nic_id nic, const extent &memory, in_flight *work,
                          bool by_memory, ucs_status_t status)
{
    guard locked(lock_);
    int device = budget::place(memory.device);
    // Other chunks of the same allocation may have failed meanwhile.
    if (work->released || known_failure(locked, nic, memory) != UCS_OK) {
        return;
    }
    if (status == UCS_ERR_UNSUPPORTED && !by_memory &&
        !nics_[nic].serves[device] &&
        nics_[nic].unsupported[device] < nic_slot::enough) {
        ++nics_[nic].unsupported[device];
    }
    failures_.add(make_span(memory.base, memory.size), memory.identity,
                  by_memory ? failures::any_nic : nic, status);
}

ucs_status_t engine::make(nic_id nic, span request, span known,
                          const extent &memory, in_flight *work, entry **out)
{
    plan ways =
        make_plan(memory, request, known, settings_.chunk_size, granularity_);
    ucs_status_t status = UCS_ERR_EXCEEDS_LIMIT;
    registered result;
    evicted gone;
    for (size_t i = 0; i < ways.count; ++i) {
        status = try_range(nic, ways.ranges[i], i + 1 == ways.count, memory,
                           work, &gone, &result);
        // What is not supported is not so for any size.
        if (status == UCS_OK || status == UCS_ERR_CANCELED ||
            status == UCS_ERR_UNSUPPORTED) {
            break;
        }
    }
    *out = nullptr;
    if (is_permanent(status)) {
        note_failure(nic, memory, work, result.by_memory, status);
    }
    if (status == UCS_OK) {
        status = still_current(memory)
                     ? publish(nic, memory, work, &result, out)
                     : UCS_ERR_CANCELED;
    }
    undo(memory, &result);
    return status;
}

} // namespace ucx_ib_dmabuf
