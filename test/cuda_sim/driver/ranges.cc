// SPDX-License-Identifier: BSD-3-Clause
#include "ranges.h"

#include <iterator>

namespace ucx_ib_dmabuf::sim {

void FreeRanges::add(uint64_t start, uint64_t size)
{
    total_ += size;
    if (recent_.size() == recent_max)
        recent_.erase(recent_.begin());
    recent_.emplace_back(start, size);

    auto next = free_.lower_bound(start);
    if (next != free_.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == start) {
            start = before->first;
            size += before->second;
            free_.erase(before);
        }
    }
    if (next != free_.end() && start + size == next->first) {
        size += next->second;
        free_.erase(next);
    }
    free_[start] = size;
}

std::optional<uint64_t> FreeRanges::take(uint64_t size)
{
    for (size_t i = recent_.size(); i-- > 0;) {
        auto [start, length] = recent_[i];
        if (length != size)
            continue;
        recent_.erase(recent_.begin() + ptrdiff_t(i));
        if (auto range = find(start, size); range != free_.end()) {
            carve(range, start, size);
            return start;
        }
    }
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        if (range->second >= size) {
            uint64_t start = range->first;
            carve(range, start, size);
            return start;
        }
    }
    return std::nullopt;
}

FreeRanges::Map::iterator FreeRanges::find(uint64_t start, uint64_t size)
{
    auto range = free_.upper_bound(start);
    if (range == free_.begin())
        return free_.end();
    --range;
    return start + size <= range->first + range->second ? range : free_.end();
}

void FreeRanges::carve(Map::iterator range, uint64_t start, uint64_t size)
{
    auto [begin, length] = *range;
    free_.erase(range);
    if (start > begin)
        free_[begin] = start - begin;
    if (start + size < begin + length)
        free_[start + size] = begin + length - start - size;
    total_ -= size;
}

} // namespace ucx_ib_dmabuf::sim
