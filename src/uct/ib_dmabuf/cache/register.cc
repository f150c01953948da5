// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include <memory>
#include <unistd.h>

// Making a registration, without the lock; then publishing it.
namespace ucx_ib_dmabuf {

static bool lacks_room(ucs_status_t status)
{
    return status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT;
}

// The other NICs that profit from this export: in use, and without anything
// registered in the range.
nic_set engine::companions(nic_id nic, span range)
{
    nic_set result;
    guard locked(lock_);
    for (nic_id other = 0; other < max_nics; ++other) {
        result[other] = other != nic && nics_[other].verbs != nullptr &&
                        nics_[other].in_use &&
                        nics_[other].map.first_overlap(range) == nullptr;
    }
    return result;
}

ucs_status_t engine::export_and_register(nic_id nic, span range, nic_set others,
                                         registered *result)
{
    int fd        = -1;
    size_t offset = 0;
    ucs_status_t status =
        memory_.export_range(range.lo, range.size(), &fd, &offset);
    if (status != UCS_OK) {
        return status;
    }
    ++count_.exports;
    auto add = [&](nic_id with) {
        void *handle = nullptr;
        ucs_status_t got =
            nics_[with].verbs->reg(fd, offset, range.lo, range.size(), &handle);
        if (got == UCS_OK) {
            result->nic[result->count]      = with;
            result->handle[result->count++] = handle;
            ++count_.registrations;
        } else {
            ++count_.failures;
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
    close(fd);
    return status;
}

// Room for the range, then the registration; when the device has no room,
// evicts as much, then all that is idle.
ucs_status_t engine::try_range(nic_id nic, span range, const extent &memory,
                               in_flight *work, registered *result)
{
    amount one{range.size(), 1};
    ucs_status_t status = reserve(memory.device, one);
    if (status != UCS_OK) {
        return status;
    }
    nic_set others = companions(nic, range);
    for (nic_id other = 0; other < max_nics; ++other) {
        if (others[other]) {
            guard locked(lock_);
            amount lacking = budget_.lacking(memory.device, one, {});
            others[other]  = lacking.bytes == 0 && lacking.regions == 0;
            if (others[other]) {
                budget_.add(memory.device, one);
            }
        }
    }
    {
        guard locked(lock_);
        work->nics = others;
        work->nics.set(nic);
    }
    size_t reserved = others.count() + 1;
    result->range   = range;
    status          = export_and_register(nic, range, others, result);
    for (size_t need : {range.size(), SIZE_MAX}) {
        if (!lacks_room(status) || !evict(nic, memory.device, need)) {
            break;
        }
        status = export_and_register(nic, range, others, result);
    }
    guard locked(lock_);
    for (; reserved > result->count; --reserved) {
        budget_.remove(memory.device, one);
    }
    return status;
}

void engine::undo(const extent &memory, registered *what)
{
    for (; what->count > 0; --what->count) {
        nics_[what->nic[what->count - 1]].verbs->dereg(
            what->handle[what->count - 1]);
        ++count_.deregistrations;
        guard locked(lock_);
        budget_.remove(memory.device, {what->range.size(), 1});
    }
}

bool engine::still_current(const extent &memory, span range)
{
    if (!check_identity_) {
        return true;
    }
    span bytes = intersection(range, make_span(memory.base, memory.size));
    ++count_.identity_checks;
    if (memory_.is_current(bytes.lo, bytes.size(), memory.identity)) {
        return true;
    }
    ++count_.identity_misses;
    return false;
}

// Into the index, if the memory is still what it was when the work began.
ucs_status_t engine::publish(nic_id nic, const extent &memory, in_flight *work,
                             registered *what, entry **out)
{
    entry_list replaced;
    {
        guard locked(lock_);
        if (work->released) {
            return UCS_ERR_CANCELED;
        }
        for (unsigned i = 0; i < what->count; ++i) {
            auto e     = std::make_unique<entry>();
            e->address = what->range.lo;
            e->length  = what->range.size();
            e->handle  = what->handle[i];
            e->bytes =
                intersection(what->range, make_span(memory.base, memory.size));
            e->identity = memory.identity;
            e->nic      = what->nic[i];
            e->device   = memory.device;
            leave_all(e->nic, e->bytes, &replaced);
            nics_[e->nic].map.insert(e.get());
            ages_.add(e.get());
            if (e->nic == nic) {
                e->uses = 1;
                *out    = e.get();
            }
            e.release();
        }
        claim_idle(&replaced);
    }
    deregister(&replaced);
    return UCS_OK;
}

ucs_status_t engine::make(nic_id nic, span request, const extent &memory,
                          in_flight *work, entry **out)
{
    span known = request;
    {
        guard locked(lock_);
        span chunks = chunks_of(memory, request, settings_.chunk_size);
        while (entry *e = nics_[nic].map.first_overlap(chunks)) {
            known     = hull(known, e->bytes);
            chunks.lo = e->bytes.hi;
        }
    }
    plan ways = make_plan(memory, request, known, settings_.chunk_size,
                          memory_.granularity());
    ucs_status_t status = UCS_ERR_EXCEEDS_LIMIT;
    registered result;
    for (size_t i = 0; i < ways.count && status != UCS_OK; ++i) {
        result.count = 0;
        status       = try_range(nic, ways.ranges[i], memory, work, &result);
        if (work->released) {
            break;
        }
    }
    if (status == UCS_OK) {
        status = still_current(memory, result.range)
                     ? publish(nic, memory, work, &result, out)
                     : UCS_ERR_CANCELED;
    }
    if (status != UCS_OK) {
        undo(memory, &result);
    }
    return status;
}

} // namespace ucx_ib_dmabuf
