// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "exporter.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ucx_ib_dmabuf {

// The bytes [lo, hi), without the last byte of the address space.
struct address_range {
    uintptr_t lo = 0;
    uintptr_t hi = 0;

    size_t size() const { return hi - lo; }
    bool empty() const { return hi <= lo; }
    bool covers(address_range other) const
    {
        return lo <= other.lo && other.hi <= hi;
    }
    bool overlaps(address_range other) const
    {
        return lo < other.hi && other.lo < hi;
    }
    bool operator==(const address_range &) const = default;
};

constexpr address_range everything{0, UINTPTR_MAX};

// Truncated at the end of the address space.
inline address_range make_range(uintptr_t address, size_t length)
{
    return {address, address + std::min(length, UINTPTR_MAX - address)};
}

inline address_range intersection(address_range a, address_range b)
{
    return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

inline address_range hull(address_range a, address_range b)
{
    return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

// The smallest aligned span around it; the unit is a power of two.
inline address_range aligned(address_range bytes, size_t unit)
{
    uintptr_t mask = unit - 1;
    uintptr_t hi   = bytes.hi > UINTPTR_MAX - mask ? UINTPTR_MAX & ~mask
                                                   : (bytes.hi + mask) & ~mask;
    return {bytes.lo & ~mask, hi};
}

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
    // UCS_ERR_NO_MEMORY. `whole`: as of exporter::describe_whole().
    ucs_status_t describe(exporter &memory, address_range request,
                          bool whole = false);
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

// A descriptor, and the number of its file, which differs in a later file that
// gets the descriptor.
struct alignas(8) open_file {
    int fd         = -1; // none
    uint32_t inode = 0;

    bool operator==(const open_file &) const = default;
};

// The dma-bufs of a range while NICs register it: one for each mapping, shared
// by all NICs, exported on demand. Closes them, in a forked child also those of
// other threads: a descriptor that stays open keeps the memory allocated. Not
// thread-safe.
class dmabuf_exports {
public:
    // Exports begin `before` bytes ahead of the range (exporter::before).
    dmabuf_exports(exporter &memory, uintptr_t address, size_t length,
                   size_t before = 0)
        : memory_(memory), address_(address - before), length_(length + before),
          offset_(before)
    {
    }
    ~dmabuf_exports()
    {
        drop(mapping_type::standard);
        drop(mapping_type::pcie);
    }
    dmabuf_exports(const dmabuf_exports &)            = delete;
    dmabuf_exports &operator=(const dmabuf_exports &) = delete;

    // Returns a dma-buf in which the range begins at offset(): the same one
    // until it is dropped. The exporter logs failures.
    ucs_status_t get(mapping_type how, int *fd);
    // Closes that dma-buf; the next get() exports again.
    void drop(mapping_type how) noexcept;

    // In bytes, a multiple of the page size.
    size_t offset() const { return offset_; }
    // The number of exports.
    unsigned made() const { return made_; }
    // Whether the memory cannot be exported.
    bool failed() const { return all_[0].status != UCS_OK; }

private:
    struct dmabuf {
        open_file file;
        std::atomic<open_file> *listed = nullptr; // for children to close
        ucs_status_t status            = UCS_OK;  // of the latest attempt
    };
    dmabuf &of(mapping_type how) { return all_[static_cast<unsigned>(how)]; }

    exporter &memory_;
    const uintptr_t address_;
    const size_t length_;
    const size_t offset_;
    unsigned made_ = 0;
    dmabuf all_[2];
};

// Registers by `call` until that succeeds, at most a few times more than once,
// after a pause of milliseconds each.
template <class Call>
ucs_status_t persist(Call call)
{
    constexpr int more_attempts = 3;
    std::chrono::milliseconds pause{1};
    ucs_status_t status = call();

    for (int i = 0; i < more_attempts && status != UCS_OK; ++i) {
        std::this_thread::sleep_for(pause);
        pause *= 2;
        status = call();
    }
    return status;
}

} // namespace ucx_ib_dmabuf
