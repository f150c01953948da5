// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/range_table.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ucx_ib_dmabuf {

bool RangeTable::insert(uint64_t base, const Allocation &allocation) noexcept
{
    Shard &part = shard(base);
    std::lock_guard<std::mutex> guard(part.lock);
    if (part.entries.size() >= part.limit) {
        std::erase_if(part.entries, [](const auto &entry) {
            return entry.second.state == State::RETIRED;
        });
        part.limit = part.entries.size() + MAX_WITH_RETIRED;
    }
    try {
        // Under the lock: who sees a new number and takes the lock finds the
        // entry.
        Allocation &entry = part.entries[base];
        entry             = allocation;
        entry.serial      = serial_.fetch_add(1, std::memory_order_acq_rel) + 1;
    } catch (const std::bad_alloc &) {
        return false;
    }
    return true;
}

size_t RangeTable::size(uint64_t base) noexcept
{
    Shard &part = shard(base);
    std::lock_guard<std::mutex> guard(part.lock);
    const auto entry = part.entries.find(base);
    return ((entry != part.entries.end()) && entry->second.exact)
               ? entry->second.size
               : 0;
}

size_t RangeTable::remove(uint64_t base) noexcept
{
    Shard &part = shard(base);
    std::lock_guard<std::mutex> guard(part.lock);
    const auto entry = part.entries.find(base);
    if (entry == part.entries.end()) {
        return 0;
    }
    const size_t size = entry->second.exact ? entry->second.size : 0;
    part.entries.erase(entry);
    return size;
}

void RangeTable::remove(const Range &seen) noexcept
{
    Shard &part = shard(seen.base);
    std::lock_guard<std::mutex> guard(part.lock);
    const auto entry = part.entries.find(seen.base);
    if ((entry != part.entries.end()) &&
        (entry->second.serial == seen.serial)) {
        part.entries.erase(entry);
    }
}

void RangeTable::doubt(const Range &seen) noexcept
{
    Shard &part = shard(seen.base);
    std::lock_guard<std::mutex> guard(part.lock);
    const auto entry = part.entries.find(seen.base);
    if ((entry != part.entries.end()) &&
        (entry->second.serial == seen.serial)) {
        entry->second.exact = false;
    }
}

size_t RangeTable::retire(uint64_t base) noexcept
{
    Shard &part = shard(base);
    std::lock_guard<std::mutex> guard(part.lock);
    const auto entry = part.entries.find(base);
    if (entry == part.entries.end()) {
        return 0;
    }
    entry->second.state = State::RETIRED;
    return entry->second.exact ? entry->second.size : 0;
}

std::vector<RangeTable::Range> RangeTable::take_owned(uint64_t owner)
{
    std::vector<Range> result, owned, in_use;
    for (Shard &part : shards_) {
        std::lock_guard<std::mutex> guard(part.lock);
        for (auto i = part.entries.begin(); i != part.entries.end();) {
            const Allocation &entry = i->second;
            const bool is_owned     = entry.state == State::OWNED;
            const bool goes =
                (entry.state != State::IN_USE) &&
                ((entry.owner == owner) || (!is_owned && (entry.owner == 0)));
            if (goes) {
                (is_owned ? owned : result)
                    .push_back({i->first, entry.size, 0, entry.state});
                i = part.entries.erase(i);
            } else {
                if (entry.state == State::IN_USE) {
                    in_use.push_back({i->first, entry.size});
                }
                ++i;
            }
        }
    }
    remove_overlapping(result, std::move(in_use));
    result.insert(result.end(), owned.begin(), owned.end());
    return result;
}

std::vector<RangeTable::Range> RangeTable::snapshot()
{
    std::vector<Range> result;
    for (Shard &part : shards_) {
        std::lock_guard<std::mutex> guard(part.lock);
        for (const auto &[base, entry] : part.entries) {
            result.push_back({base, entry.size, entry.serial});
        }
    }
    return result;
}

std::vector<RangeTable::Range> RangeTable::newer_than(uint64_t serial)
{
    std::vector<Range> result;
    for (Shard &part : shards_) {
        std::lock_guard<std::mutex> guard(part.lock);
        for (const auto &[base, entry] : part.entries) {
            if ((entry.state != State::RETIRED) && (entry.serial > serial)) {
                result.push_back({base, entry.size, entry.serial});
            }
        }
    }
    return result;
}

void RangeTable::remove_overlapping(std::vector<Range> &ranges,
                                    std::vector<Range> others)
{
    const auto by_base = [](const Range &a, const Range &b) {
        return a.base < b.base;
    };
    std::sort(others.begin(), others.end(), by_base);

    std::erase_if(ranges, [&](const Range &range) {
        // The last one that starts before the range ends. Those before it end
        // before it starts: allocations in use do not overlap.
        const auto next =
            std::lower_bound(others.begin(), others.end(),
                             Range{range.base + range.size, 0}, by_base);
        if (next == others.begin()) {
            return false;
        }
        const Range &last = *std::prev(next);
        return last.base + last.size > range.base;
    });
}

void RangeTable::reset_after_fork() noexcept
{
    // Another thread of the parent may have held a lock or been inside a map:
    // start afresh and leak what is there.
    for (Shard &part : shards_) {
        new (&part) Shard();
    }
}

} // namespace ucx_ib_dmabuf
