// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <new>
#include <uct/ib_dmabuf/gpu/dmabuf_exports.h>
#include <uct/ib_dmabuf/persist.h>

// Makes a registration without the lock; then publishes it.
namespace ucx_ib_dmabuf {

// Whether the failure lasts, and is remembered. A lack of room, or a busy
// driver, may pass.
static bool is_permanent(ucs_status_t status)
{
    return status != UCS_OK && status != UCS_ERR_BUSY && !lacks_room(status);
}

// Registers the range for the request, or the request's pages if that fails.
ucs_status_t rcache::make(pending *work, cached_region **out)
{
    address_range pages  = aligned(work->request, granularity_);
    address_range ways[] = {
        aligned(range_to_register(work->memory.range, work->request,
                                  settings_.chunk_size),
                granularity_),
        pages};
    ucs_status_t status = UCS_OK;
    for (address_range range : ways) {
        work->made.range = range;
        work->exact      = range == pages;
        status           = try_range(work);
        // Unsupported memory is unsupported in any size.
        if (status == UCS_OK || work->exact ||
            (status == UCS_ERR_UNSUPPORTED && !work->persistent)) {
            break;
        }
    }
    if (is_permanent(status)) {
        note_failure(work, status);
    }
    if (status == UCS_OK) {
        status =
            still_current(work->memory) ? publish(work, out) : UCS_ERR_CANCELED;
    }
    return status;
}

// Reserves room for the range and registers. Repeats that if room was lacking
// and something could be evicted.
ucs_status_t rcache::try_range(pending *work)
{
    registered &made    = work->made;
    made.by_memory      = false;
    made.before         = memory_.before(made.range.lo, work->memory.in_chunks);
    ucs_status_t status = prepare(work);
    if (status != UCS_OK) {
        return status;
    }
    const auto attempt = [&] {
        ucs_status_t result = export_and_register(work);
        while (lacks_room(result) && make_room(work, result)) {
            result = export_and_register(work);
        }
        return result;
    };
    status      = work->insists() ? persist(attempt) : attempt();
    made.mapped = status == UCS_OK;
    if (status != UCS_OK) {
        guard locked(lock_);
        for (nic_id each = 0; each < nic_end_; ++each) {
            if (work->nics[each]) {
                budget_.remove(each, made.range.size());
            }
        }
        budget_.unmap(work->memory.device, made.exported());
    }
    return status;
}

// Reserves room for the range and for companions. Evicts nothing if the range
// is registered in part: the request's pages suffice then.
ucs_status_t rcache::prepare(pending *work)
{
    guard locked(lock_);
    address_range range = work->made.range;
    if (!work->exact &&
        !budget_.lacking(work->memory.device, work->made.exported(), 1)
             .nothing() &&
        nics_[work->nic].index.overlaps(range)) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    ucs_status_t status = reserve(locked, *work);
    if (status == UCS_OK) {
        work->tried = beside(locked, *work);
        work->nics  = add_companions(locked, *work);
        work->nics.set(work->nic);
    }
    return status;
}

// The other NICs that profit from this export. They need at least half as much
// of the GPU's memory as this one, have no region there, and need no eviction.
// Reserves their room; they share the mapping.
nic_set rcache::add_companions(guard &locked, const pending &work)
{
    int device          = budget::place(work.memory.device);
    address_range range = work.made.range;
    address_range bytes = intersection(range, work.memory.range);
    uint32_t used       = nics_[work.nic].used[device];
    nic_set result;
    for (nic_id other = 0; other < nic_end_; ++other) {
        if (other != work.nic && nics_[other].nic != nullptr &&
            nics_[other].used[device] >= std::max(used / 2, 2u) &&
            failures_.find(work.memory.identity, other) == nullptr &&
            nics_[other].index.find(bytes.lo, bytes.size()) == nullptr &&
            !others_pending(locked, other, range) &&
            budget_.lacking(device, 0, 1).nothing()) {
            budget_.add(other, range.size());
            result.set(other);
        }
    }
    return result;
}

ucs_status_t rcache::export_and_register(pending *work)
{
    address_range range = work->made.range;
    dmabuf_exports memory(memory_, range.lo, range.size(), work->made.before);
    ucs_status_t status = register_with(work->nic, &memory, work);
    // A failure of another NIC is ignored: it registers again when a request
    // comes.
    nic_set others = work->nics;
    others.reset(work->nic);
    for (nic_id each = 0; status == UCS_OK && others.any(); ++each) {
        if (others[each] && register_with(each, &memory, work) != UCS_OK) {
            guard locked(lock_);
            budget_.remove(each, range.size());
        }
        others.reset(each);
    }
    process_counters.add("exports", memory.made());
    work->made.by_memory = status != UCS_OK && memory.failed();
    return status;
}

ucs_status_t rcache::register_with(nic_id nic, dmabuf_exports *memory,
                                   pending *work)
{
    void *handle        = nullptr;
    registered *result  = &work->made;
    address_range range = result->range;

    ucs_status_t status = as_answer(nics_[nic].nic->reg(
        *memory, work->memory.device, range.lo, range.size(), &handle));
    if (status == UCS_OK) {
        result->nic[result->count]      = nic;
        result->handle[result->count++] = handle;
    }
    process_counters.add(status == UCS_OK ? process_metric("registrations")
                                          : process_metric("failures"));
    trace(status != UCS_OK && memory->failed() ? "export" : "register", nic,
          range, status);
    return status;
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

// Publishes if the memory is the same as when the work began. Allocates and
// frees nothing under the lock: an allocator may call the driver, and so
// release memory.
ucs_status_t rcache::publish(pending *work, cached_region **out)
{
    ucs_status_t status = UCS_OK;
    batch replaced;
    region_list made;
    if (!make_regions(*work, &made)) {
        return UCS_ERR_NO_MEMORY;
    }
    {
        guard locked(lock_);
        if (work->released) {
            return UCS_ERR_CANCELED;
        }
        *out = add_regions(locked, work, &made, &replaced);
        if (*out != nullptr) {
            acquire(locked, *out, work->request);
            if (work->persistent) { // other requests fail on a known failure
                failures_.forget(work->memory.identity, work->nic);
            }
        } else {
            status = UCS_INPROGRESS; // another thread's region: see begin()
        }
        claim_unused(locked, &replaced);
    }
    deregister(&replaced);
    return status;
}

// Makes a region for each handle, in their order. Returns false without memory.
bool rcache::make_regions(const pending &work, region_list *made)
try {
    const registered &what    = work.made;
    const segment_run &memory = work.memory;
    for (unsigned i = 0; i < what.count; ++i) {
        cached_region *e = &made->emplace_back();
        region_map entry;
        e->address  = what.range.lo;
        e->length   = what.range.size();
        e->handle   = what.handle[i];
        e->bytes    = intersection(what.range, memory.range);
        e->exported = what.exported();
        e->nic      = what.nic[i];
        e->device   = budget::place(memory.device);
        e->place    = std::prev(made->end());
        e->unasked  = true;
        all_segments(memory.all, e->bytes, [e](const segment &each, uintptr_t) {
            e->memory.push_back(each);
            return true;
        });
        entry.emplace(e->bytes.lo, e);
        e->entry = entry.extract(entry.begin());
    }
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

// Takes the regions that can be added out of `made`; `work` keeps the other
// handles, to be undone. Returns the region of the work's NIC, if it was added.
cached_region *rcache::add_regions(guard &locked, pending *work,
                                   region_list *made, batch *replaced)
{
    registered *what     = &work->made;
    unsigned left        = 0;
    cached_region *first = nullptr, *wanted = nullptr;
    for (auto each = made->begin(); each != made->end();) {
        cached_region *e = &*each++; // it may leave the list
        if (add_region(locked, e, made, replaced)) {
            mapping::join(e, first);
            first  = e;
            wanted = e->nic == work->nic ? e : wanted;
            continue;
        }
        what->nic[left]      = e->nic;
        what->handle[left++] = e->handle;
    }
    what->count = left;
    what->mapped &= first == nullptr;
    return wanted;
}

// Replaces regions within it. Returns false if it would lie within another one.
bool rcache::add_region(guard &locked, cached_region *e, region_list *made,
                        batch *replaced)
{
    region_index &index = nics_[e->nic].index;
    if (index.find(e->bytes.lo, e->bytes.size()) != nullptr) {
        return false;
    }
    index.each(e->bytes, [&](cached_region *old) {
        if (e->bytes.covers(old->bytes)) {
            retire(locked, old, cause::replaced);
            replaced->push(old);
        }
    });
    e->generation = generation_;
    e->last_use   = ++uses_;
    index.insert(e);
    lru_.splice(lru_.end(), *made, e->place);
    return true;
}

// Remembers the failure, so that not every message tries again.
void rcache::note_failure(pending *work, ucs_status_t status)
{
    guard locked(lock_);
    uint64_t identity = work->memory.identity;
    // Other chunks of the same allocation may have failed meanwhile.
    if (!work->released && failures_.find(identity, work->nic) == nullptr) {
        failures_.add(work->memory.range, identity,
                      work->made.by_memory ? failures::any_nic : work->nic,
                      status);
    }
}

} // namespace ucx_ib_dmabuf
