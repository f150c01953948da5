// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <new>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>

// Makes registrations, without the lock. Nothing is allocated or freed under
// the lock: an allocator may call the driver, and so release memory.
namespace ucx_ib_dmabuf {

// All steps of a miss. Events mark a registration that is listed, so it is
// listed before the memory is described.
ucs_status_t rcache::miss(nic_id nic, address_range request, effort how,
                          entry **out)
{
    new_registration work{.nic        = nic,
                          .request    = request,
                          .persistent = how == effort::persistent};
    {
        guard locked(lock_);
        list(locked, &work);
    }
    return perform(&work, out);
}

void rcache::list(guard &, new_registration *work)
{
    work->next = std::exchange(in_progress_, work);
}

ucs_status_t rcache::perform(new_registration *work, entry **out)
{
    const address_range request = work->request;
    ucs_status_t status = work->memory.describe(memory_, request, work->ahead);
    if (status == UCS_OK && !aligned(request, granularity_).covers(request)) {
        status = UCS_ERR_INVALID_PARAM; // the last page of all addresses
    }
    if (status == UCS_OK) {
        status = begin(work, out);
    }
    if (status == UCS_OK && *out == nullptr) {
        if (work->memory.joins) {
            extend(work);
        }
        status = register_memory(work);
    }
    return finish(work, status, out);
}

// Returns an entry that another thread has published, or waits for one in
// progress. Otherwise other threads wait for `work` from now on.
ucs_status_t rcache::begin(new_registration *work, entry **out)
{
    const segment_run &memory = work->memory;
    guard locked(lock_);
    if (work->ahead && !choose_nic(locked, work)) {
        return UCS_ERR_UNSUPPORTED;
    }
    const nic_id nic = work->nic;
    learn_limit(locked, memory.device);
    if (work->is_touched()) {
        return UCS_ERR_CANCELED;
    }
    address_range range =
        range_to_register(memory.range, work->request, settings_.chunk_size);
    if (is_stale(locked, memory, range)) {
        process_counters.add("identity_misses");
        locked.unlock();
        withdraw(range, cause::stale);
        return UCS_ERR_CANCELED;
    }
    *out = nics_[nic].index.find(work->request.lo, work->request.size());
    if (*out != nullptr) {
        acquire(locked, *out, work->request);
        return UCS_OK;
    }
    const failures::failure *known = failures_.ask(memory.identity, nic);
    if (known != nullptr && !work->persistent) {
        return known->status;
    }
    range = memory.joins ? free_around(locked, nic, memory.range, work->request)
                         : range;
    // Without the wait both would register; the later one discards its own.
    if (!deregistering_ && others_register(locked, nic, range)) {
        changed_.wait(locked,
                      [&] { return !others_register(locked, nic, range); });
        return UCS_INPROGRESS;
    }
    work->range = range;
    work->nics.set(nic);
    return UCS_OK;
}

// Two threads may both be first and call max_bytes(), without the lock: it
// returns the same.
void rcache::learn_limit(guard &locked, int device)
{
    if (budget_.knows(device)) {
        return;
    }
    locked.unlock();
    const size_t bytes = settings_.max_bytes(device);
    if (bytes != SIZE_MAX) {
        need_each_use(); // also for GPUs without a limit
    }
    locked.lock();
    budget_.set_max_bytes(device, bytes);
}

// Whether an entry in the range has other memory: an event was missed.
bool rcache::is_stale(guard &locked, const segment_run &memory,
                      address_range range) const
{
    bool stale = false;
    each_entry(locked, range, [&](const entry *e) {
        stale |= !all_segments(memory.all, intersection(e->bytes, range),
                               [e](const segment &each, uintptr_t at) {
                                   return segment_at(e->memory, at)->identity ==
                                          each.identity;
                               });
    });
    return stale;
}

bool rcache::others_register(guard &, nic_id nic, address_range range) const
{
    for (const auto *work = in_progress_; work != nullptr; work = work->next) {
        if (work->nics[nic] && work->range.overlaps(range)) {
            return true;
        }
    }
    return false;
}

// The room to extend a registration of VMM segments: in the window of the
// request, up to the entries that are registered already.
address_range rcache::free_around(guard &, nic_id nic, address_range memory,
                                  address_range request) const
{
    address_range window = window_of(request, settings_.chunk_size);
    address_range room   = hull(memory, window);
    nics_[nic].index.each(window, [&](const entry *e) {
        if (e->bytes.lo < memory.lo) {
            room.lo = std::min(std::max(room.lo, e->bytes.hi), memory.lo);
        }
        if (e->bytes.hi > memory.hi) {
            room.hi = std::max(std::min(room.hi, e->bytes.lo), memory.hi);
        }
    });
    return room;
}

// Adds the segments around the request. Events beside them do not matter.
void rcache::extend(new_registration *work)
{
    work->memory.extend(memory_, work->range);
    guard locked(lock_);
    work->range = range_to_register(work->memory.range, work->request,
                                    settings_.chunk_size);
}

// Registers the memory around the request, or the request's pages if that
// fails. Remembers a failure, so that not every message tries again.
ucs_status_t rcache::register_memory(new_registration *work)
{
    const segment_run &memory = work->memory;
    address_range around      = aligned(work->range, granularity_);
    address_range pages       = aligned(work->request, granularity_);
    ucs_status_t status       = UCS_OK;
    for (address_range range : {around, pages}) {
        work->exact = range == pages;
        status      = register_range(work, range);
        // Unsupported memory is unsupported in any size.
        if (status == UCS_OK || work->exact ||
            (status == UCS_ERR_UNSUPPORTED && !work->persistent)) {
            break;
        }
    }
    // A lack of room, or a busy driver, may pass.
    if (status != UCS_OK && status != UCS_ERR_BUSY && !lacks_room(status) &&
        !work->ahead) {
        guard locked(lock_);
        // Other chunks of the same allocation may have failed meanwhile.
        if (!work->released &&
            failures_.find(memory.identity, work->nic) == nullptr) {
            failures_.add(
                {.what   = memory.identity,
                 .nic    = work->export_failed ? failures::any_nic : work->nic,
                 .status = status,
                 .memory = memory.range});
        }
    }
    return status == UCS_OK && !still_current(memory) ? UCS_ERR_CANCELED
                                                      : status;
}

// If the GPU or the NIC lacks room, which the error does not tell, retry()
// makes room.
ucs_status_t rcache::register_range(new_registration *work, address_range range)
{
    if (!add_entry(work, range, work->nic)) {
        return UCS_ERR_NO_MEMORY;
    }
    ucs_status_t status = prepare(work);
    if (status == UCS_OK) {
        const auto attempt = [&] {
            const ucs_status_t first = export_and_register(work);
            return lacks_room(first) && !work->ahead ? retry(work, first)
                                                     : first;
        };
        status = work->insists() ? persist(attempt) : attempt();
        if (status != UCS_OK) {
            guard locked(lock_);
            budget_.remove(work->new_entries.front());
        }
    }
    if (status != UCS_OK) {
        work->new_entries.clear();
    }
    return status;
}

// Adds an entry; all of them have one export. Returns false without memory.
bool rcache::add_entry(new_registration *work, address_range range, nic_id nic)
try {
    const segment_run &memory = work->memory;
    const size_t before       = memory_.before(range.lo, memory.in_chunks);
    entry_list made(1);
    entry *e = &made.front();
    entry_map node;
    e->address = range.lo;
    e->length  = range.size();
    e->bytes   = intersection(range, memory.range);
    e->nic     = nic;
    e->place   = made.begin();
    e->group   = work->new_entries.empty()
                     ? std::make_shared<export_group>(budget::slot(memory.device),
                                                    before + range.size())
                     : work->new_entries.front().group;
    all_segments(memory.all, e->bytes, [e](const segment &each, uintptr_t) {
        e->memory.push_back(each);
        return true;
    });
    e->parts_left = e->memory.size();
    e->is_allocation =
        !memory.joins && !memory.in_chunks && (e->bytes == memory.range);
    node.emplace(e->bytes.lo, e);
    e->node = node.extract(node.begin());
    work->new_entries.splice(work->new_entries.end(), made);
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

// Counts the entry in the budget, after making room if needed. Evicts nothing
// if the range is registered in part: the request's pages suffice then.
ucs_status_t rcache::prepare(new_registration *work)
{
    guard locked(lock_);
    if (work->ahead && each_use_) {
        return UCS_ERR_CANCELED; // room is scarce now
    }
    const entry &e            = work->new_entries.front();
    const export_group &group = *e.group;
    const auto fits           = [&] {
        return budget_.lacking(group.device, group.bytes, 1).nothing();
    };
    bool in_part = false;
    nics_[e.nic].index.each(e.bytes, [&](entry *) { in_part = true; });
    if (in_part && !work->exact && !fits()) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    const failures::failure *refusal =
        work->persistent ? nullptr
                         : refusals_.ask(group.device, e.nic, e.length);
    ucs_status_t status =
        refusal == nullptr ? UCS_OK : heed_refusal(locked, *refusal, e);
    if (status == UCS_OK && !fits()) {
        status = make_room(locked, e);
    }
    if (status == UCS_OK) {
        budget_.add(e);
        work->nics = companions(locked, *work);
        work->nics.set(work->nic);
    }
    return status;
}

// The other NICs that profit from this export. They need at least half as much
// of the GPU's memory as this one, and have no entry there.
rcache::nic_set rcache::companions(guard &locked, const new_registration &work)
{
    const entry &e = work.new_entries.front();
    int device     = e.group->device;
    uint32_t used  = nics_[work.nic].used[device];
    nic_set result;
    for (nic_id other = 0; other < nic_end_; ++other) {
        if (other != work.nic && nics_[other].nic != nullptr &&
            nics_[other].used[device] >= std::max(used / 2, 2u) &&
            failures_.find(work.memory.identity, other) == nullptr &&
            nics_[other].index.find(e.bytes.lo, e.bytes.size()) == nullptr &&
            !others_register(locked, other, e.bytes)) {
            result.set(other);
        }
    }
    return result;
}

ucs_status_t rcache::export_and_register(new_registration *work)
{
    entry *e = &work->new_entries.front();
    {
        guard locked(lock_);
        work->freed = room_freed_;
    }
    dmabuf_exports memory(memory_, e->address, e->length,
                          e->group->bytes - e->length);
    ucs_status_t status = register_with(e, &memory);
    nic_set others      = work->nics;
    others.reset(work->nic);
    for (nic_id other = 0; status == UCS_OK && others.any(); ++other) {
        if (others[other]) {
            add_companion(other, &memory, work);
            others.reset(other);
        }
    }
    process_counters.add("exports", memory.made());
    work->export_failed = status != UCS_OK && memory.failed();
    if (lacks_room(status) && !work->ahead) {
        if (give_up_ahead()) {
            return export_and_register(work);
        }
        need_each_use();
        guard locked(lock_);
        if (room_freed_ == work->freed) {
            note_refusal(locked, *work, status);
        }
    }
    return status;
}

ucs_status_t rcache::register_with(entry *e, dmabuf_exports *memory)
{
    const ucs_status_t status = as_answer(nics_[e->nic].nic->reg(
        *memory, e->group->device, e->address, e->length, &e->handle));
    process_counters.add(status == UCS_OK ? process_metric("registrations")
                                          : process_metric("failures"));
    settings_.trace(
        {status != UCS_OK && memory->failed() ? "export" : "register", nullptr,
         status, nics_[e->nic].nic, e->address, e->length});
    return status;
}

// Registers with another NIC, too, if that evicts nothing. A failure is
// ignored: the NIC registers again when a request comes.
void rcache::add_companion(nic_id nic, dmabuf_exports *memory,
                           new_registration *work)
{
    const entry &first = work->new_entries.front();
    if (!add_entry(work, make_range(first.address, first.length), nic)) {
        return;
    }
    entry &e  = work->new_entries.back();
    bool made = false;
    {
        guard locked(lock_);
        made = budget_.lacking(e.group->device, 0, 1).nothing();
        if (made) {
            budget_.add(e);
        }
    }
    if (made && register_with(&e, memory) != UCS_OK) {
        guard locked(lock_);
        budget_.remove(e);
        made = false;
    }
    if (!made) {
        work->new_entries.pop_back();
    }
}

// If events are missed, the memory may have been replaced during its export.
bool rcache::still_current(const segment_run &memory)
{
    if (!check_identity_) {
        return true;
    }
    process_counters.add("identity_checks");
    if (memory.is_current(memory_)) {
        return true;
    }
    process_counters.add("identity_misses");
    return false;
}

} // namespace ucx_ib_dmabuf
