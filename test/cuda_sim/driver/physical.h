// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of one simulated GPU: a sparse memory file (memfd). Its pages
// exist only after they were written.
#pragma once

#include "ranges.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace ucx_ib_dmabuf::sim {

// The unit of physical memory and of addresses.
inline constexpr uint64_t block_size = 2ull << 20;

inline constexpr uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

class PhysicalMemory;

// Physical memory, released with its last owner. The simulated GPU then loses
// the pages, but a dma-buf that was made of them keeps them.
struct Extent {
    PhysicalMemory &owner;
    const uint64_t offset; // in the memory file
    const uint64_t size;   // both multiples of block_size
    // A stand-in for a dma-buf was made. It cannot keep pages alive, so the
    // memory is never reused.
    std::atomic<bool> stand_in{false};
    std::atomic<bool> written{
        false}; // a large write has already made all of its pages

    Extent(PhysicalMemory &its_owner, uint64_t its_offset, uint64_t its_size)
        : owner(its_owner), offset(its_offset), size(its_size)
    {
    }
    ~Extent();
};

// Guarded by the lock of Memory, which the caller must hold exclusively for
// changes.
class PhysicalMemory {
public:
    PhysicalMemory(int device, uint64_t capacity);

    // Returns nothing if less than 'size' is left. New memory reads as zeros.
    std::shared_ptr<Extent> allocate(uint64_t size);

    // Returns the CPU's address of the byte at 'offset', and the number of
    // contiguous bytes from there on.
    char *host(uint64_t offset, uint64_t *contiguous) const;

    // Call this before the CPU writes the range. The first large write makes
    // its pages in one call: a fault for each is slow, above all on a kernel in
    // user mode.
    void populate(Extent &extent, uint64_t offset, uint64_t size) const;

    int fd() const { return fd_; }
    int device() const { return device_; }
    uint64_t capacity() const { return capacity_; }
    uint64_t used() const { return used_; }

private:
    friend struct Extent;
    void release(const Extent &extent);
    bool grow(uint64_t size);

    static constexpr uint64_t window_size = 1ull << 30;

    const int device_;
    const uint64_t capacity_;
    int fd_         = -1;
    uint64_t used_  = 0;
    uint64_t grown_ = 0;          // size of the file
    FreeRanges free_;             // within the file
    std::vector<char *> windows_; // its mappings, window_size each
};

} // namespace ucx_ib_dmabuf::sim
