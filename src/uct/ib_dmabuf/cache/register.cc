// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
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

// The other NICs that profit from this export: in use, without anything in the
// range, and with room for it that nobody has to leave. Takes that room.
nic_set engine::add_companions(guard &, nic_id nic, span range, int device)
{
    nic_set result;
    amount one{range.size(), 1};
    for (nic_id other = 0; other < nic_end_; ++other) {
        if (other != nic && nics_[other].in_use &&
            nics_[other].map.first_overlap(range) == nullptr &&
            !others_in_flight(other, range) &&
            budget_.lacking(device, one).nothing()) {
            budget_.add(device, one);
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
        return status;
    }
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
    for (nic_id other = 0; status == UCS_OK && other < nic_end_; ++other) {
        // Whatever happens to the others is their own matter: they try again
        // when they are asked.
        if (others[other]) {
            add(other);
        }
    }
    return status;
}

// Room for the range, then the registration; when the device has no room,
// evicts as much, then all that is idle.
ucs_status_t engine::try_range(nic_id nic, span range, const extent &memory,
                               in_flight *work, registered *result)
{
    amount one{range.size(), 1};
    nic_set others;
    {
        guard locked(lock_);
        if (!reserve(locked, memory.device, one)) {
            return UCS_ERR_EXCEEDS_LIMIT;
        }
        if (work->released) {
            budget_.remove(memory.device, one);
            return UCS_ERR_CANCELED;
        }
        others     = add_companions(locked, nic, range, memory.device);
        work->nics = others;
        work->nics.set(nic);
    }
    result->range       = range;
    ucs_status_t status = export_and_register(nic, range, others, result);
    for (size_t need : {range.size(), SIZE_MAX}) {
        if (!lacks_room(status) || !evict(nic, memory.device, need)) {
            break;
        }
        status = export_and_register(nic, range, others, result);
    }
    size_t unused = others.count() + 1 - result->count;
    if (unused > 0) {
        guard locked(lock_);
        budget_.remove(memory.device, {unused * range.size(), unused});
    }
    return status;
}

void engine::undo(const extent &memory, registered *what)
{
    for (; what->count > 0; --what->count) {
        unsigned last = what->count - 1;
        nics_[what->nic[last]].verbs->dereg(what->handle[last]);
        count(count_.deregistrations);
        guard locked(lock_);
        budget_.remove(memory.device, {what->range.size(), 1});
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

// Into the index, in place of what it overlaps. nullptr without memory.
entry *engine::insert(guard &locked, const extent &memory,
                      const registered &what, unsigned i, entry_list *replaced)
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
    leave_all(locked, e->nic, e->bytes, replaced);
    if (!nics_[e->nic].map.insert(e, &limbo_)) {
        pool_.give(e);
        return nullptr;
    }
    if (check_identity_) {
        e->set(entry::checked);
    }
    ages_.add(e);
    return e;
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
        for (unsigned i = 0; i < what->count; ++i) {
            entry *e = insert(locked, memory, *what, i, &replaced);
            if (e == nullptr) {
                what->nic[left]      = what->nic[i];
                what->handle[left++] = what->handle[i];
            } else if (e->nic == nic) {
                add_use(locked, e);
                e->marks.fetch_and(~entry::recent);
                *out = e;
            }
        }
        what->count = left;
        claim_idle(locked, &replaced);
    }
    deregister(&replaced);
    return *out != nullptr ? UCS_OK : UCS_ERR_NO_MEMORY;
}

ucs_status_t engine::make(nic_id nic, span request, span known,
                          const extent &memory, in_flight *work, entry **out)
{
    plan ways =
        make_plan(memory, request, known, settings_.chunk_size, granularity_);
    ucs_status_t status = UCS_ERR_EXCEEDS_LIMIT;
    registered result;
    for (size_t i = 0; i < ways.count; ++i) {
        status = try_range(nic, ways.ranges[i], memory, work, &result);
        if (status == UCS_OK || status == UCS_ERR_CANCELED) {
            break;
        }
    }
    *out = nullptr;
    if (status == UCS_OK) {
        status = still_current(memory)
                     ? publish(nic, memory, work, &result, out)
                     : UCS_ERR_CANCELED;
    }
    undo(memory, &result);
    return status;
}

} // namespace ucx_ib_dmabuf
