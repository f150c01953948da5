// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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
    struct Range {
        uint64_t base;
        size_t size; /**< bytes */
    };

    /** What is known of an allocation. */
    struct Allocation {
        size_t size;            /**< bytes */
        uint64_t owner = 0;     /**< handle of its pool or module; 0: unknown */
        bool retired   = false; /**< goes with its owner, if not before */
        bool exact     = true;  /**< the size is right, not a lower bound */
    };

    /** Add an allocation, or replace the one that starts there. */
    void insert(uint64_t base, const Allocation &allocation);

    /** @return An allocation's size, 0 if not known exactly. */
    size_t size(uint64_t base);

    /** Remove an allocation. @return Its size, 0 if not known exactly. */
    size_t remove(uint64_t base);

    /**
     * Mark an allocation as given back to its pool, which still has its memory.
     * @return Its size, 0 if not known exactly.
     */
    size_t retire(uint64_t base);

    /**
     * Remove what was retired and belongs to this owner, or to no known one.
     * Of that, return what does not overlap memory in use: a pool may have
     * given out part of it again.
     */
    std::vector<Range> take_retired(uint64_t owner);

    /** All of it, retired or not. */
    std::vector<Range> snapshot();

    /** Remove from 'ranges' those that overlap one of 'others'. */
    static void remove_overlapping(std::vector<Range> &ranges,
                                   std::vector<Range> others);

    /** Forget everything; locks as after fork() in the child. */
    void reset_after_fork();

private:
    struct alignas(64) Shard {
        std::mutex lock;
        std::unordered_map<uint64_t, Allocation> entries;
    };

    static constexpr unsigned SHARDS = 16;

    Shard &shard(uint64_t base)
    {
        // CUDA addresses are multiples of 512 or more: mix the upper bits.
        return shards_[(base * UINT64_C(0x9e3779b97f4a7c15)) >> 60];
    }

    Shard shards_[SHARDS];
};

} // namespace ucx_ib_dmabuf
