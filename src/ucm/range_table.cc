// SPDX-License-Identifier: BSD-3-Clause
#include "range_table.h"
#include <algorithm>
#include <new>

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
    memory_range &entry = entries_.find(added.base)->second;
    entry               = added;
    entry.serial        = ++serial_;
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

// A serial of 0 in `seen` matches any.
memory_range range_table::act(step what, const memory_range &seen) noexcept
{
    table::node_type gone; // freed after unlocking
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = entries_.find(seen.base);
    if ((found == entries_.end()) ||
        ((seen.serial != 0) && (found->second.serial != seen.serial))) {
        return {seen.base, 0};
    }
    memory_range &entry = found->second;
    memory_range before = entry;
    before.size         = entry.exact ? entry.size : 0;
    if (what == step::doubt) {
        entry.exact = false;
    } else if ((what == step::retire) && (entry.owner != 0)) {
        entry.is = state::retired;
    } else if (what != step::look) {
        gone = entries_.extract(found);
    }
    return before;
}

bool overlaps_any(const memory_range &range,
                  const std::vector<memory_range> &live)
{
    // The last one that starts before the range ends.
    const auto next = std::ranges::lower_bound(live, range.base + range.size,
                                               {}, &memory_range::base);
    return (next != live.begin()) &&
           (std::prev(next)->base + std::prev(next)->size > range.base);
}

std::vector<memory_range> range_table::take(state which, uint64_t owner)
{
    std::vector<memory_range> result, live;
    table gone;
    std::unique_lock<std::mutex> guard(lock_);
    make_room(live, guard);
    move_to(gone, [&](const memory_range &entry) {
        const bool goes =
            (entry.is == which) &&
            ((entry.owner == owner) || (entry.owner == unknown_pool));
        if (!goes && (entry.is != state::retired)) {
            live.push_back(entry);
        }
        return goes;
    });
    guard.unlock();
    for (const auto &[base, entry] : gone) {
        result.push_back(entry);
    }
    if (which == state::retired) {
        std::erase_if(result, [&](const memory_range &range) {
            return overlaps_any(range, live);
        });
    }
    return result;
}

std::vector<memory_range> range_table::snapshot()
{
    std::vector<memory_range> result;
    std::unique_lock<std::mutex> guard(lock_);
    make_room(result, guard);
    for (const auto &[base, entry] : entries_) {
        result.push_back(entry);
    }
    return result;
}

} // namespace ucx_ib_dmabuf::ucm
