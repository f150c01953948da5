// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ucx_ib_dmabuf::sim {

// Free ranges of numbers. A request takes the range of its size that was freed
// last, as in allocators. This makes a stale registration of an address likely.
// Not thread-safe.
class FreeRanges {
public:
    void add(uint64_t start, uint64_t size);

    // Takes a range of 'size'; returns nothing if there is none.
    std::optional<uint64_t> take(uint64_t size);

    uint64_t total() const { return total_; }

private:
    using Map = std::map<uint64_t, uint64_t>; // start to size

    Map::iterator find(uint64_t start, uint64_t size);
    void carve(Map::iterator range, uint64_t start, uint64_t size);

    static constexpr size_t recent_max = 64;

    Map free_;
    std::vector<std::pair<uint64_t, uint64_t>> recent_;
    uint64_t total_ = 0;
};

} // namespace ucx_ib_dmabuf::sim
