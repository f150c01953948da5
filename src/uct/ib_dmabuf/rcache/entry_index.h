// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.h"
#include <iterator>

namespace ucx_ib_dmabuf {

// The regions of one NIC by start address. They may overlap, but none is within
// another, so they are sorted by their ends as well. The last one that begins
// at or before an address reaches furthest. Under the cache's lock.
class region_index {
public:
    // A region with all of the range, or nullptr; also for an empty range.
    cached_region *find(uintptr_t address, size_t length) const
    {
        const auto after = regions_.upper_bound(address);
        if (after == regions_.begin()) {
            return nullptr;
        }
        cached_region *e = std::prev(after)->second;
        return address < e->bytes.hi && length - 1 < e->bytes.hi - address
                   ? e
                   : nullptr;
    }
    // Calls `call` with each that serves any of the range, in order. A region
    // may leave the index in its call.
    template <typename Call>
    void each(address_range range, Call call) const
    {
        auto at = regions_.upper_bound(range.lo);
        while (at != regions_.begin() &&
               std::prev(at)->second->bytes.hi > range.lo) {
            --at;
        }
        while (at != regions_.end() && at->first < range.hi) {
            call((at++)->second);
        }
    }
    bool overlaps(address_range range) const
    {
        bool any = false;
        each(range, [&any](cached_region *) { any = true; });
        return any;
    }

    // The region's node is allocated and freed with the region.
    void insert(cached_region *e) { regions_.insert(std::move(e->entry)); }
    void erase(cached_region *e) { e->entry = regions_.extract(e->bytes.lo); }

private:
    region_map regions_;
};

} // namespace ucx_ib_dmabuf
