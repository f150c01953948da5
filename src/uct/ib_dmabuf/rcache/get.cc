// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <cstdio>
#include <cstdlib>

// Requests of a NIC's user: hits, and decisions after a miss.
namespace ucx_ib_dmabuf {

// An owner that releases memory more often than this during its registration
// breaks its promise.
constexpr int max_attempts = 64;

static void add_users(const cached_region &e, address_range request,
                      uint32_t change)
{
    all_segments(e.memory, request, [change](const segment &each, uintptr_t) {
        each.users += change;
        return true;
    });
}

void rcache::acquire(guard &, cached_region *e, address_range request)
{
    ++e->users;
    add_users(*e, request, 1);
    e->last_use = ++uses_;
    lru_.splice(lru_.end(), lru_, e->place);
    if (std::exchange(e->unasked, false)) {
        ++nics_[e->nic].used[e->device];
    }
}

const region *rcache::find(nic_id nic, uintptr_t address,
                           size_t length) noexcept
{
    if (nic >= max_nics) {
        return nullptr;
    }
    cached_region *e;
    {
        guard locked(lock_);
        e = nics_[nic].index.find(address, length);
        if (e == nullptr) {
            return nullptr;
        }
        acquire(locked, e, make_range(address, length));
    }
    if (check_identity_ && !is_current(*e, make_range(address, length))) {
        put(e, address, length);
        return nullptr;
    }
    process_counters.add("hits");
    return e;
}

// Whether the requested memory is the same. If not, its regions are retired,
// for all NICs.
bool rcache::is_current(const cached_region &e, address_range request)
{
    uintptr_t at = 0;
    uint64_t old = 0;
    if (all_segments(e.memory, request,
                     [&](const segment &each, uintptr_t from) {
                         process_counters.add("identity_checks");
                         at  = from;
                         old = each.identity;
                         return memory_.is_current(from, each.identity);
                     })) {
        return true;
    }
    process_counters.add("identity_misses");
    batch gone;
    guard locked(lock_);
    each_region(locked, {at, at + 1}, [&](cached_region *other) {
        if (segment_at(other->memory, at)->identity == old) {
            gone.push(other);
        }
    });
    expel(locked, &gone, cause::stale, {}, {});
    return false;
}

// In debug builds, the process ends if a region is put back too often.
static bool is_held(const cached_region &e)
{
#if ENABLE_ASSERT
    if (e.users == 0) {
        fprintf(stderr,
                "ib_dmabuf cache: the region at 0x%zx (%zu bytes) was given "
                "back more often than acquired\n",
                static_cast<size_t>(e.address), e.length);
        abort();
    }
#endif
    return e.users > 0;
}

// The last user of a retired region deregisters it, however large it is: the
// registrar may notify that user's thread of the deregistration.
void rcache::put(const region *used, uintptr_t address, size_t length) noexcept
{
    // Every region is a cached_region, which is not const.
    auto *e = static_cast<cached_region *>(const_cast<region *>(used));
    batch last;
    region_list over; // freed without the lock
    if (used == nullptr) {
        return;
    }
    {
        guard locked(lock_);
        if (e->generation != generation_ || !is_held(*e)) {
            return;
        }
        add_users(*e, make_range(address, length), UINT32_MAX);
        if (--e->users > 0 || !e->retired || (e->claimed && !e->ended)) {
            return;
        }
        if (e->ended) {
            over.splice(over.end(), ended_, e->place);
            return;
        }
        claim(locked, e, &last);
    }
    deregister(&last);
}

ucs_status_t rcache::get(nic_id nic, uintptr_t address, size_t length,
                         const region **out, effort how)
{
    *out = find(nic, address, length);
    if (*out != nullptr) {
        return UCS_OK;
    }
    cached_region *e      = nullptr;
    address_range request = make_range(address, length);
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
        return status;
    }
    process_counters.add("misses");
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

ucs_status_t rcache::miss(nic_id nic, address_range request, effort how,
                          cached_region **out)
{
    segment_run memory;
    uint64_t time       = log_.now();
    ucs_status_t status = memory.describe(memory_, request);
    if (status != UCS_OK) {
        return status; // no further cost for host memory
    }
    pending work(nic, request, how);
    work.memory = std::move(memory);
    if (!aligned(request, granularity_).covers(request)) {
        return UCS_ERR_INVALID_PARAM; // the last page of all addresses
    }
    status = begin(&work, time, out);
    if (status != UCS_OK || *out != nullptr) {
        return status;
    }
    if (work.memory.joins) {
        work.memory.extend(memory_, work.range);
        guard locked(lock_);
        work.range = work.memory.range; // events beside it do not matter
    }
    status = make(&work, out);
    end(&work);
    // `work` is out of the list. A release may be the cause of an error.
    return status != UCS_OK && work.released ? UCS_ERR_CANCELED : status;
}

// Returns a region that another thread has published, or waits for one in
// progress. Otherwise lists `work` as pending. The memory was described after
// `time`.
ucs_status_t rcache::begin(pending *work, uint64_t time, cached_region **out)
{
    const segment_run &memory = work->memory;
    nic_id nic                = work->nic;
    guard locked(lock_);
    learn_limit(locked, memory.device);
    if (log_.released_since(time, memory.range)) {
        return UCS_ERR_CANCELED;
    }
    address_range range =
        range_to_register(memory.range, work->request, settings_.chunk_size);
    if (retire_stale(locked, memory, range)) {
        return UCS_INPROGRESS;
    }
    *out = nics_[nic].index.find(work->request.lo, work->request.size());
    if (*out != nullptr) {
        acquire(locked, *out, work->request);
        return UCS_OK;
    }
    ucs_status_t status = failures_.ask(memory.identity, nic);
    if (status != UCS_OK && !work->persistent) {
        return status;
    }
    work->range = memory.joins
                      ? free_around(locked, nic, memory.range, work->request)
                      : range;
    // Without the wait both would register; the later one discards its own.
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

// Regions in the range must have the memory's identity; otherwise an event was
// missed.
bool rcache::retire_stale(guard &locked, const segment_run &memory,
                          address_range range)
{
    batch stale;
    each_region(locked, range, [&](cached_region *e) {
        if (!all_segments(memory.all, intersection(e->bytes, range),
                          [e](const segment &each, uintptr_t at) {
                              return segment_at(e->memory, at)->identity ==
                                     each.identity;
                          })) {
            stale.push(e);
        }
    });
    if (stale.empty()) {
        return false;
    }
    process_counters.add("identity_misses");
    expel(locked, &stale, cause::stale, {}, {});
    return true;
}

bool rcache::others_pending(guard &, nic_id nic, address_range range) const
{
    for (pending *work = pending_; work != nullptr; work = work->next) {
        if (work->nics[nic] && work->range.overlaps(range)) {
            return true;
        }
    }
    return false;
}

// The room to extend a registration of VMM segments: in the window of the
// request, up to the regions that are registered already.
address_range rcache::free_around(guard &, nic_id nic, address_range memory,
                                  address_range request) const
{
    address_range window = window_of(request, settings_.chunk_size);
    address_range room   = hull(memory, window);
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

// Undoes handles that have not become a region. Then waiting threads continue.
void rcache::end(pending *work)
{
    registered &what = work->made;
    for (unsigned i = 0; i < what.count; ++i) {
        call_dereg(what.nic[i], what.handle[i], what.range, "not published");
        process_counters.add("deregistrations");
    }
    {
        guard locked(lock_);
        for (unsigned i = 0; i < what.count; ++i) {
            budget_.remove(what.nic[i], what.range.size());
        }
        if (what.mapped) {
            budget_.unmap(work->memory.device, what.exported());
        }
        pending **link = &pending_;
        while (*link != nullptr && *link != work) {
            link = &(*link)->next;
        }
        if (*link == work) { // false if it was the parent's
            *link = work->next;
        }
    }
    changed_.notify_all();
}

} // namespace ucx_ib_dmabuf
