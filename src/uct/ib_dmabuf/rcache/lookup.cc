// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <cstdio>
#include <cstdlib>

// Requests of a NIC's user, and hits.
namespace ucx_ib_dmabuf {

// An owner that releases memory more often than this during its registration
// breaks its promise.
constexpr int max_attempts = 64;

static void add_users(const entry &e, address_range request, uint32_t change)
{
    all_segments(e.memory, request, [change](const segment &each, uintptr_t) {
        each.users += change;
        return true;
    });
    if (e.at < stage::leaving) {
        e.group->users += change;
    }
}

// Moves the entries of its group, which are next to each other in the LRU list.
void rcache::move_group(guard &, const entry &e, entry_list::iterator to)
{
    auto first = e.place, last = std::next(first);
    while (first != lru_.begin() && std::prev(first)->group == e.group) {
        --first;
    }
    while (last != lru_.end() && last->group == e.group) {
        ++last;
    }
    if (to != first) {
        lru_.splice(to, lru_, first, last);
    }
}

void rcache::acquire(guard &locked, entry *e, address_range request)
{
    ++e->users;
    add_users(*e, request, 1);
    move_group(locked, *e, lru_.end());
    if (std::exchange(e->prefetched, false)) {
        ++nics_[e->nic].used[e->group->device];
    }
}

const region *rcache::find(nic_id nic, uintptr_t address,
                           size_t length) noexcept
{
    if (nic >= max_nics) {
        return nullptr;
    }
    entry *e;
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

// Whether the requested memory is the same. If not, its entries leave the
// cache, for all NICs.
bool rcache::is_current(const entry &e, address_range request)
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
    departing gone;
    {
        guard locked(lock_);
        each_entry(locked, {at, at + 1}, [&](entry *other) {
            if (segment_at(other->memory, at)->identity == old) {
                expel(locked, other, cause::stale, &gone);
            }
        });
    }
    depart(&gone);
    return false;
}

// In debug builds, the process ends if a region is put back too often.
static bool is_held(const entry &e)
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

// The last user of an unlinked entry deregisters it, however large it is: the
// registrar may notify that user's thread of the deregistration.
void rcache::put(const region *used, uintptr_t address, size_t length) noexcept
{
    // Every region is an entry, which is not const.
    auto *e = static_cast<entry *>(const_cast<region *>(used));
    entry_chain last;
    entry_list over; // freed without the lock
    if (used == nullptr) {
        return;
    }
    {
        guard locked(lock_);
        if (e->generation != generation_ || !is_held(*e)) {
            return;
        }
        add_users(*e, make_range(address, length), UINT32_MAX);
        if (--e->users > 0) {
            return;
        }
        if (e->at == stage::unlinked) {
            take_for_dereg(locked, e, &unlinked_, &last);
        } else if (e->at == stage::deregistered) {
            over.splice(over.end(), deregistered_, e->place);
        }
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
    entry *e              = nullptr;
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

} // namespace ucx_ib_dmabuf
