// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "provider.h"
#include "span.h"
#include <vector>

namespace ucx_ib_dmabuf {

struct piece {
    uintptr_t base    = 0;
    uint64_t identity = 0;
    // Of a region's, under the cache's lock:
    mutable uint32_t users = 0;     // that asked for some of it
    mutable bool lost      = false; // it was released
};

// What memory is made of, in the order of the addresses: one allocation, or
// VMM segments that touch. At least one.
using pieces = std::vector<piece>;

// The last one that begins at or before the address, or the first of all.
inline pieces::const_iterator piece_at(const pieces &all, uintptr_t address)
{
    auto after =
        std::upper_bound(all.begin(), all.end(), address,
                         [](uintptr_t at, auto &p) { return at < p.base; });
    return after == all.begin() ? after : after - 1;
}

// Calls with each that the range touches, and with the first address of both,
// until one call returns false; whether none did.
template <typename Call>
bool all_pieces(const pieces &all, span range, Call call)
{
    for (auto each = piece_at(all, range.lo);
         each != all.end() && each->base < range.hi; ++each) {
        if (!call(*each, std::max(each->base, range.lo))) {
            return false;
        }
    }
    return true;
}

// What a request is in: one allocation, or VMM segments that touch, one after
// the other.
struct memory_run {
    span range;
    pieces all;
    int device     = -1;
    bool joins     = false; // segments
    bool in_chunks = false;
    // Of the first that the request touches: what failures are remembered by,
    // and what more segments have to be of.
    uint64_t identity    = 0;
    uint64_t reservation = 0;

    // The allocation, or the segments that the request touches. As
    // exporter::describe(); UCS_ERR_INVALID_PARAM: the request is empty or
    // leaves its allocation, or the exporter talks nonsense; UCS_ERR_NO_MEMORY.
    ucs_status_t describe(exporter &memory, span request);
    // Segments around it that are there, of the same reservation, as far as
    // they lie in `within`.
    void extend(exporter &memory, span within);
    // False if something of it is not what it was.
    bool is_current(exporter &memory) const;

private:
    ucs_status_t find_all(exporter &memory, span request);
    void append(const extent &next);
};

// The part of the address space to register for a request in memory that is
// larger than a chunk. Windows of a chunk's size begin at each half of a chunk;
// if the request fits into none, of twice the size, and so on. So each border
// between two aligned chunks is within one window of that size, memory is in
// two of them, and requests never drive each other's registrations out.
span window_of(span request, size_t chunk_size);

// What to register for a request, not rounded to the granularity.
span range_to_register(span memory, span request, size_t chunk_size);

} // namespace ucx_ib_dmabuf
