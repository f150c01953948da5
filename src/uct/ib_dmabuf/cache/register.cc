// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include "exports.h"
#include "mapping.h"

// Making a registration, without the lock; then publishing it.
namespace ucx_ib_dmabuf {

static bool lacks_room(ucs_status_t status)
{
    return status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT;
}

// Not by itself in a while: what UCX is to hear again is that there is no room,
// that somebody else is busy, or that the memory went.
static bool is_permanent(ucs_status_t status)
{
    return status != UCS_OK && status != UCS_ERR_BUSY &&
           status != UCS_ERR_CANCELED && !lacks_room(status);
}

// What is to be registered, or if that fails the pages of the request.
ucs_status_t engine::make(nic_id nic, span request, const memory_run &memory,
                          pending *work, cached_region **out)
{
    registered result;
    evicted gone;
    span pages  = aligned(request, granularity_);
    span ways[] = {
        aligned(range_to_register(memory.range, request, settings_.chunk_size),
                granularity_),
        pages};
    ucs_status_t status = UCS_OK;
    for (span range : ways) {
        status =
            try_range(nic, range, range == pages, memory, work, &gone, &result);
        // What is not supported is not so for any size.
        if (status == UCS_OK || status == UCS_ERR_CANCELED ||
            status == UCS_ERR_UNSUPPORTED || range == pages) {
            break;
        }
    }
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

// Room for the range, then the registration; once more where there was no room
// and something could be evicted.
ucs_status_t engine::try_range(nic_id nic, span range, bool exact,
                               const memory_run &memory, pending *work,
                               evicted *gone, registered *result)
{
    nic_set with;
    result->by_memory   = false;
    result->range       = range;
    ucs_status_t status = prepare(nic, range, exact, memory, work, gone, &with);
    if (status != UCS_OK) {
        return status;
    }
    do {
        status = export_and_register(nic, range, memory.device, with, result);
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
    if (status == UCS_OK && pending_ == work && work->next == nullptr) {
        found_room(locked, nic, memory.device);
    }
    return status;
}

// Reserves room for the range and for companions. For what is registered
// already, in part, nothing is evicted: the pages of the request will do.
ucs_status_t engine::prepare(nic_id nic, span range, bool exact,
                             const memory_run &memory, pending *work,
                             evicted *gone, nic_set *others)
{
    guard locked(lock_);
    int device = memory.device;
    if (!exact && nics_[nic].index.first(range) != nullptr &&
        !budget_.lacking(device, {range.size(), 1}).nothing()) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    if (!reserve(locked, nic, device, range)) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    ucs_status_t status = may_fit(locked, nic, device, range.size(), gone);
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

// The other NICs that profit from this export: those that need at least half as
// much of the GPU's memory as this one, have no region there, and need nobody
// to be evicted. Takes room for them; the mapping they share.
nic_set engine::add_companions(guard &locked, nic_id nic, span range,
                               const memory_run &memory)
{
    int device    = budget::place(memory.device);
    span bytes    = intersection(range, memory.range);
    uint32_t used = nics_[nic].used[device];
    nic_set result;
    for (nic_id other = 0; other < nic_end_; ++other) {
        if (other != nic && nics_[other].nic != nullptr &&
            nics_[other].used[device] >= std::max(used / 2, 2u) &&
            known_failure(locked, other, memory) == UCS_OK &&
            nics_[other].index.find(bytes.lo, bytes.size()) == nullptr &&
            !others_pending(locked, other, range) &&
            budget_.lacking(device, {0, 1}).nothing()) {
            budget_.add(other, range.size());
            result.set(other);
        }
    }
    return result;
}

ucs_status_t engine::export_and_register(nic_id nic, span range, int device,
                                         const nic_set &others,
                                         registered *result)
{
    exports memory(memory_, range.lo, range.size());
    ucs_status_t status = register_with(nic, &memory, device, result);
    // Whatever happens to the others is their own matter: they try again when
    // they are asked.
    for (nic_id other = 0; status == UCS_OK && others.any() && other < max_nics;
         ++other) {
        if (others[other]) {
            register_with(other, &memory, device, result);
        }
    }
    count(count_.exports, memory.made());
    result->by_memory = status != UCS_OK && memory.failed();
    return status;
}

ucs_status_t engine::register_with(nic_id nic, exports *memory, int device,
                                   registered *result)
{
    void *handle = nullptr;
    span range   = result->range;

    ucs_status_t status = nics_[nic].nic->reg_memory(*memory, device, range.lo,
                                                     range.size(), &handle);
    if (status == UCS_OK) {
        result->nic[result->count]      = nic;
        result->handle[result->count++] = handle;
    }
    count(status == UCS_OK ? count_.registrations : count_.failures);
    trace(status != UCS_OK && memory->failed() ? "export" : "register", nic,
          range, status);
    return status;
}

// Where events are missed the memory may have been replaced while it was being
// exported.
bool engine::still_current(const memory_run &memory)
{
    if (!check_identity_) {
        return true;
    }
    count(count_.identity_checks);
    if (memory.is_current(memory_)) {
        return true;
    }
    count(count_.identity_misses);
    return false;
}

// If the memory is still what it was when the work began. Takes out of `what`
// all that has become a region; the rest is to be undone.
ucs_status_t engine::publish(nic_id nic, const memory_run &memory,
                             pending *work, registered *what,
                             cached_region **out)
{
    batch replaced;
    *out = nullptr;
    {
        guard locked(lock_);
        if (work->released && !LEFT_OUT(released_look)) {
            return UCS_ERR_CANCELED;
        }
        writer alone(references_);
        unsigned left       = 0;
        cached_region *made = nullptr;
        for (unsigned i = 0; i < what->count; ++i) {
            cached_region *e = make_region(locked, memory, *what, i);
            if (e != nullptr && insert(alone, e, &replaced)) {
                mapping::join(e, made);
                made = e;
                *out = e->nic == nic ? e : *out;
                continue;
            }
            if (e != nullptr) {
                pool_.give(e);
            }
            what->nic[left]      = what->nic[i];
            what->handle[left++] = what->handle[i];
        }
        what->count = left;
        what->mapped &= made == nullptr;
        if (*out != nullptr) {
            add_reference(locked, *out);
            ++nics_[nic].used[(*out)->device];
        }
        claim_unused(locked, &replaced);
    }
    deregister(&replaced);
    return *out != nullptr ? UCS_OK : UCS_ERR_NO_MEMORY;
}

// nullptr without memory.
cached_region *engine::make_region(guard &, const memory_run &memory,
                                   const registered &what, unsigned i)
{
    cached_region *e = pool_.take();
    if (e == nullptr) {
        return nullptr;
    }
    e->address          = what.range.lo;
    e->length           = what.range.size();
    e->handle           = what.handle[i];
    e->bytes            = intersection(what.range, memory.range);
    e->nic              = static_cast<uint16_t>(what.nic[i]);
    e->device           = static_cast<int16_t>(budget::place(memory.device));
    e->rest->generation = generation_;
    e->recent           = false;
    e->unasked          = i > 0;
    if (!memory.all.copy_to(&e->rest->memory, e->bytes)) {
        pool_.give(e);
        return nullptr;
    }
    return e;
}

// Into the index; what lies within it goes. False without memory.
bool engine::insert(writer &alone, cached_region *e, batch *replaced)
{
    address_index &index = nics_[e->nic].index;
    for (cached_region *old = index.first(e->bytes); old != nullptr;) {
        cached_region *next = index.next(old, e->bytes);
        if (e->bytes.covers(old->bytes)) {
            retire(alone, old, cause::replaced);
            replaced->push(old);
        }
        old = next;
    }
    if (!index.insert(e)) {
        return false;
    }
    lru_.add(e);
    return true;
}

void engine::undo(const memory_run &memory, registered *what)
{
    for (unsigned i = 0; i < what->count; ++i) {
        trace("deregister", what->nic[i], what->range, UCS_OK, "not published");
        nics_[what->nic[i]].nic->dereg(what->handle[i]);
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

// So that it is not tried with each message. Whether a GPU and a NIC work
// together at all shows when they first try; afterwards it is the memory, and
// one allocation may be odd then, too.
void engine::note_failure(nic_id nic, const memory_run &memory, pending *work,
                          bool by_memory, ucs_status_t status)
{
    guard locked(lock_);
    int device = budget::place(memory.device);
    // Other chunks of the same allocation may have failed meanwhile.
    if (work->released || known_failure(locked, nic, memory) != UCS_OK) {
        return;
    }
    if (status == UCS_ERR_UNSUPPORTED && !by_memory &&
        nics_[nic].used[device] == 0 &&
        nics_[nic].unsupported[device] < nic_slot::enough) {
        ++nics_[nic].unsupported[device];
    }
    failures_.add(memory.range, memory.identity,
                  by_memory ? failures::any_nic : nic, status);
}

} // namespace ucx_ib_dmabuf
