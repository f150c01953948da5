// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "address_range.h"
#include "exporter.h"
#include <vector>

namespace ucx_ib_dmabuf {

struct segment {
    uintptr_t base    = 0;
    uint64_t identity = 0;
    // In a region, under the cache's lock:
    mutable uint32_t users = 0;     // that requested some of it
    mutable bool lost      = false; // it was released
};

// Memory in the order of addresses: one allocation, or VMM segments that touch.
// Never empty.
using segments = std::vector<segment>;

// The last one that begins at or before the address, or else the first one.
inline segments::const_iterator segment_at(const segments &all,
                                           uintptr_t address)
{
    auto after =
        std::upper_bound(all.begin(), all.end(), address,
                         [](uintptr_t at, auto &p) { return at < p.base; });
    return after == all.begin() ? after : after - 1;
}

// Calls `call` with each one that the range touches, and with the first address
// in both, until it returns false. Returns whether it never did.
template <typename Call>
bool all_segments(const segments &all, address_range range, Call call)
{
    for (auto each = segment_at(all, range.lo);
         each != all.end() && each->base < range.hi; ++each) {
        if (!call(*each, std::max(each->base, range.lo))) {
            return false;
        }
    }
    return true;
}

// The memory around a request: one allocation, or VMM segments that touch.
struct segment_run {
    address_range range;
    segments all;
    int device     = -1;
    bool joins     = false; // VMM segments
    bool in_chunks = false;
    // From the first one that the request touches. Failures are remembered by
    // the identity; extend() adds only segments of the reservation.
    uint64_t identity    = 0;
    uint64_t reservation = 0;

    // Finds the allocation, or the segments that the request touches. Errors as
    // of exporter::describe(); UCS_ERR_INVALID_PARAM: the request is empty or
    // leaves its allocation, or the exporter's answer is invalid;
    // UCS_ERR_NO_MEMORY.
    ucs_status_t describe(exporter &memory, address_range request);
    // Adds segments around the run, of its reservation, that lie in `within`.
    void extend(exporter &memory, address_range within);
    // False if a part of the run was replaced.
    bool is_current(exporter &memory) const;

private:
    void append(const allocation &next);
};

// The addresses to register for a request in memory that is larger than a
// chunk. Windows of a chunk's size begin at each half of a chunk; for a request
// that fits into none they have twice the size, and so on. So a window spans
// each border of two aligned chunks, memory is in two windows of a size, and
// requests never evict each other's registrations.
address_range window_of(address_range request, size_t chunk_size);

// The range to register for a request, not rounded to the granularity.
address_range range_to_register(address_range memory, address_range request,
                                size_t chunk_size);

} // namespace ucx_ib_dmabuf
