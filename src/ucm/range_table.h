// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ucx_ib_dmabuf {

/**
 * CUDA allocations that were announced, by their first address, so that a
 * release need not ask the driver how long they are. Thread-safe.
 *
 * It may lag behind the truth (a release that no hook saw): what it says is a
 * hint for announcing, never for deciding that memory is there.
 */
class RangeTable {
public:
    /** How an allocation ends. */
    enum class State : uint8_t {
        IN_USE,  /**< it is freed, or its context goes */
        RETIRED, /**< it was freed, and its pool has the memory still */
        OWNED,   /**< its owner goes */
    };

    struct Range {
        uint64_t base;
        size_t size;         /**< bytes */
        uint64_t serial = 0; /**< which insertion it is of, if known */
        State state     = State::IN_USE; /**< the same */
    };

    /** What is known of an allocation. */
    struct Allocation {
        size_t size;         /**< bytes */
        uint64_t owner  = 0; /**< its pool or module; 0: unknown */
        State state     = State::IN_USE;
        bool exact      = true; /**< the size is right, not a minimum */
        uint64_t serial = 0;    /**< given by insert() */
    };

    /**
     * Add an allocation, or replace the one that starts there.
     * @return False: there is no memory left, and it is not in the table.
     */
    bool insert(uint64_t base, const Allocation &allocation) noexcept;

    /** @return An allocation's size, 0 if not known exactly. */
    size_t size(uint64_t base) noexcept;

    /** Remove an allocation. @return Its size, 0 if not known exactly. */
    size_t remove(uint64_t base) noexcept;

    /** Remove what a snapshot showed, unless it was replaced since. */
    void remove(const Range &seen) noexcept;

    /** The same, but only its size is not trusted any more. */
    void doubt(const Range &seen) noexcept;

    /** @return A number that grows with each insertion. */
    uint64_t serial() const { return serial_.load(std::memory_order_acquire); }

    /**
     * Mark an allocation as given back to its pool, which still has its memory.
     * @return Its size, 0 if not known exactly.
     */
    size_t retire(uint64_t base) noexcept;

    /**
     * Remove what goes with this owner: what it owns, and what was retired and
     * belongs to it or to an unknown pool. Of the latter, return what does not
     * overlap memory in use: a pool may have given out part of it again.
     * May throw std::bad_alloc; part of it may be removed then.
     */
    std::vector<Range> take_owned(uint64_t owner);

    /** All of it, retired or not. May throw std::bad_alloc. */
    std::vector<Range> snapshot();

    /**
     * What is in use or owned, and was inserted after this serial. May throw
     * std::bad_alloc.
     */
    std::vector<Range> newer_than(uint64_t serial);

    /** Remove from 'ranges' those that overlap one of 'others'. */
    static void remove_overlapping(std::vector<Range> &ranges,
                                   std::vector<Range> others);

    /** Forget everything; locks as after fork() in the child. */
    void reset_after_fork() noexcept;

private:
    struct alignas(64) Shard {
        std::mutex lock;
        std::unordered_map<uint64_t, Allocation> entries;
        size_t limit = MAX_WITH_RETIRED; // entries, before it is cleaned
    };

    static constexpr unsigned SHARDS = 16;

    // Retired allocations were announced when they were freed: where a program
    // never frees twice at the same address, they are forgotten.
    static constexpr size_t MAX_WITH_RETIRED = 1 << 14; // per shard

    Shard &shard(uint64_t base)
    {
        // CUDA addresses are multiples of 512 or more: mix the upper bits.
        return shards_[(base * UINT64_C(0x9e3779b97f4a7c15)) >> 60];
    }

    Shard shards_[SHARDS];
    std::atomic<uint64_t> serial_{0};
};

} // namespace ucx_ib_dmabuf
