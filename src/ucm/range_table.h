// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace ucx_ib_dmabuf::ucm {

// How memory ends.
enum class state : uint8_t {
    in_use,  // it is freed, or its context goes
    retired, // it was freed, and its pool has the memory still
    owned,   // its owner goes
};

// The owner of memory whose pool is not known: it goes with any.
constexpr uint64_t unknown_pool = 1;

// What is known of an allocation.
struct memory_range {
    uint64_t base;
    size_t size;        // bytes
    uint64_t owner = 0; // its pool or module; 0: none
    state is       = state::in_use;
    bool exact     = true; // the size is right, not a minimum
    // Which insertion it is of, given by the table.
    uint64_t serial = 0;
};

// CUDA allocations that were announced, by their first address, so that a
// release need not ask the driver how long they are. Thread-safe.
//
// It may lag behind the truth (a release that no hook saw): what it says is a
// hint for announcing, never for deciding that memory is there.
class range_table {
public:
    // Adds an allocation, or replaces the one that starts there. False: there
    // is no memory left, and it is not in the table.
    bool insert(const memory_range &added) noexcept;

    // Of an allocation; 0 if it is not known.
    uint64_t owner(uint64_t base) noexcept;

    // These return an allocation's size, 0 if it is not known exactly.
    size_t size(uint64_t base) noexcept { return act(step::look, base); }
    size_t remove(uint64_t base) noexcept { return act(step::remove, base); }
    // It went back to its pool, if it has one, which still has its memory.
    size_t retire(uint64_t base) noexcept { return act(step::retire, base); }

    // Of what was seen, unless it was replaced since: remove it, or do not
    // trust its size any more.
    void remove(const memory_range &seen) noexcept
    {
        act(step::remove, seen.base, seen.serial);
    }
    void doubt(const memory_range &seen) noexcept
    {
        act(step::doubt, seen.base, seen.serial);
    }

    // Whether an allocation begins there, retired or not.
    bool contains(uint64_t base) noexcept;

    // A number that grows with each insertion.
    uint64_t serial() const { return serial_.load(std::memory_order_acquire); }

    // Removes what goes with this owner, and returns it: what it owns, or what
    // was retired. Of the latter, returns what does not overlap memory that is
    // there: a pool may have given out part of it again.
    // May throw std::bad_alloc; part of it may be removed then.
    std::vector<memory_range> take(state which, uint64_t owner);

    // All of it, retired or not. May throw std::bad_alloc.
    std::vector<memory_range> snapshot();

    // What is in use or owned, and was inserted after this serial. May throw
    // std::bad_alloc.
    std::vector<memory_range> newer_than(uint64_t serial);

    // Removes from `ranges` those that overlap one of `others`.
    static void remove_overlapping(std::vector<memory_range> &ranges,
                                   std::vector<memory_range> others);

private:
    // Retired allocations were announced when they were freed: where a program
    // never frees twice at the same address, they are forgotten.
    static constexpr size_t max_with_retired = 1 << 18;

    enum class step { look, remove, retire, doubt };
    size_t act(step what, uint64_t base, uint64_t serial = 0) noexcept;
    template <class Wanted>
    std::vector<memory_range> select(Wanted wanted);

    // Under the lock nodes are moved, and nothing is allocated or freed:
    // malloc() may itself call CUDA, and its hooks.
    using table = std::map<uint64_t, memory_range>;
    template <class Goes>
    void move_to(table &gone, Goes goes);
    void make_room(std::vector<memory_range> &list,
                   std::unique_lock<std::mutex> &guard);

    // One for all: UCM takes another lock for each event.
    std::mutex lock_;
    table entries_;
    size_t limit_ = max_with_retired; // entries, before it is cleaned
    std::atomic<uint64_t> serial_{0};
};

} // namespace ucx_ib_dmabuf::ucm
