// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace ucx_ib_dmabuf::ucm {

// The event that ends an allocation.
enum class state : uint8_t {
    in_use,  // it is freed, or its context is destroyed
    retired, // it was freed; its pool still holds the memory
    owned,   // its owner is destroyed
};

// The owner of memory from an unknown pool: it ends with any owner.
constexpr uint64_t unknown_pool = 1;

// The table's record of an allocation.
struct memory_range {
    uint64_t base;
    size_t size;        // bytes
    uint64_t owner = 0; // its pool or module; 0: none
    state is       = state::in_use;
    bool exact     = true; // false: the size is a minimum
    // The number of its insertion, set by the table; 0: it is not listed.
    uint64_t serial = 0;
};

// Whether a range overlaps one of these, which are sorted and disjoint: a pool
// may have reused a part of freed memory.
bool overlaps_any(const memory_range &range,
                  const std::vector<memory_range> &live);

// CUDA allocations that were announced, by their first address, so that a
// release need not query the driver for their sizes. Thread-safe.
//
// The table may be stale, as hooks may miss a release. Use it as a hint for
// announcements, never as a proof that memory exists.
class range_table {
public:
    // Adds an allocation, or replaces the one that starts there. Returns false,
    // without adding it, if host memory is exhausted.
    bool insert(const memory_range &added) noexcept;

    // These return the allocation that begins there, as it was, with size 0 if
    // its size is not known exactly.
    memory_range look_up(uint64_t base) noexcept
    {
        return act(step::look, {base, 0});
    }
    memory_range remove(uint64_t base) noexcept
    {
        return act(step::remove, {base, 0});
    }
    // Marks it as returned to its pool, or removes it if it has no owner.
    memory_range retire(uint64_t base) noexcept
    {
        return act(step::retire, {base, 0});
    }

    // These remove an allocation, or mark its size as inexact, unless it was
    // replaced after it was seen.
    void remove(const memory_range &seen) noexcept { act(step::remove, seen); }
    void doubt(const memory_range &seen) noexcept { act(step::doubt, seen); }

    // Removes and returns the ranges of this owner in state `which`. Omits
    // retired ranges that overlap live memory from the result. May throw
    // std::bad_alloc, with some ranges removed.
    std::vector<memory_range> take(state which, uint64_t owner);

    // Returns all ranges, retired or not. May throw std::bad_alloc.
    std::vector<memory_range> snapshot();

private:
    // After growing by this many, the table drops retired ranges. They were
    // announced; a program that reuses no address would fill the table.
    static constexpr size_t max_with_retired = 1 << 18;

    enum class step { look, remove, retire, doubt };
    memory_range act(step what, const memory_range &seen) noexcept;

    // Under the lock, nodes are only moved, never allocated or freed: malloc()
    // may itself call CUDA, and its hooks.
    using table = std::map<uint64_t, memory_range>;
    template <class Goes>
    void move_to(table &gone, Goes goes);
    void make_room(std::vector<memory_range> &list,
                   std::unique_lock<std::mutex> &guard);

    // A single lock, as UCM takes another lock for each event anyway.
    std::mutex lock_;
    table entries_;
    size_t limit_ = max_with_retired; // entries, before it drops retired ones
    uint64_t serial_ = 0;
};

} // namespace ucx_ib_dmabuf::ucm
