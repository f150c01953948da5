// SPDX-License-Identifier: BSD-3-Clause
#include "range_table.h"
#include <algorithm>
#include <new>
#include <utility>

namespace ucx_ib_dmabuf::ucm {

template <class Goes>
void range_table::move_to(table &gone, Goes goes)
{
    for (auto next = entries_.begin(); next != entries_.end();) {
        const auto each = next++;
        if (goes(each->second)) {
            gone.insert(gone.end(), entries_.extract(each));
        }
    }
}

// Reserves room for all entries. It unlocks to allocate, so the table may grow.
void range_table::make_room(std::vector<memory_range> &list,
                            std::unique_lock<std::mutex> &guard)
{
    while (list.capacity() < entries_.size()) {
        const size_t wanted = entries_.size() + entries_.size() / 8;
        guard.unlock();
        list.reserve(wanted);
        guard.lock();
    }
}

bool range_table::insert(const memory_range &added) noexcept
try {
    table fresh{{added.base, added}}, gone; // freed after unlocking
    const std::lock_guard<std::mutex> guard(lock_);
    if (entries_.size() >= limit_) {
        move_to(gone, [](const memory_range &entry) {
            return entry.is == state::retired;
        });
        limit_ = entries_.size() + max_with_retired;
    }
    entries_.merge(fresh);
    // Under the lock: a thread that has seen the new serial finds the entry.
    memory_range &entry = entries_.find(added.base)->second;
    entry               = added;
    entry.serial        = serial_.fetch_add(1) + 1;
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

uint64_t range_table::owner(uint64_t base) noexcept
{
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = entries_.find(base);
    return (found == entries_.end()) ? 0 : found->second.owner;
}

// Returns the size if it is exact, else 0. A serial of 0 matches any.
size_t range_table::act(step what, uint64_t base, uint64_t serial) noexcept
{
    table::node_type gone;
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = entries_.find(base);
    if ((found == entries_.end()) ||
        ((serial != 0) && (found->second.serial != serial))) {
        return 0;
    }
    memory_range &entry = found->second;
    const size_t size   = entry.exact ? entry.size : 0;
    if (what == step::doubt) {
        entry.exact = false;
    } else if ((what == step::retire) && (entry.owner != 0)) {
        entry.is = state::retired;
    } else if (what != step::look) {
        gone = entries_.extract(found);
    }
    return size;
}

bool range_table::contains(uint64_t base) noexcept
{
    const std::lock_guard<std::mutex> guard(lock_);
    return entries_.contains(base);
}

std::vector<memory_range> range_table::take(state which, uint64_t owner)
{
    std::vector<memory_range> result, there;
    table gone;
    std::unique_lock<std::mutex> guard(lock_);
    make_room(there, guard);
    move_to(gone, [&](const memory_range &entry) {
        const bool goes =
            (entry.is == which) &&
            ((entry.owner == owner) || (entry.owner == unknown_pool));
        if (!goes && (entry.is != state::retired)) {
            there.push_back(entry);
        }
        return goes;
    });
    guard.unlock();
    for (const auto &[base, entry] : gone) {
        result.push_back(entry);
    }
    if (which == state::retired) {
        remove_overlapping(result, std::move(there));
    }
    return result;
}

template <class Wanted>
std::vector<memory_range> range_table::select(Wanted wanted)
{
    std::vector<memory_range> result;
    std::unique_lock<std::mutex> guard(lock_);
    make_room(result, guard);
    for (const auto &[base, entry] : entries_) {
        if (wanted(entry)) {
            result.push_back(entry);
        }
    }
    return result;
}

std::vector<memory_range> range_table::snapshot()
{
    return select([](const memory_range &) { return true; });
}

std::vector<memory_range> range_table::newer_than(uint64_t serial)
{
    return select([&](const memory_range &entry) {
        return (entry.is != state::retired) && (entry.serial > serial);
    });
}

void range_table::remove_overlapping(std::vector<memory_range> &ranges,
                                     std::vector<memory_range> others)
{
    std::ranges::sort(others, {}, &memory_range::base);
    std::erase_if(ranges, [&](const memory_range &range) {
        // The last one that starts before the range ends. Allocations in use do
        // not overlap, so earlier ones end before that one starts.
        const auto next = std::ranges::lower_bound(
            others, range.base + range.size, {}, &memory_range::base);
        return (next != others.begin()) &&
               (std::prev(next)->base + std::prev(next)->size > range.base);
    });
}

} // namespace ucx_ib_dmabuf::ucm
