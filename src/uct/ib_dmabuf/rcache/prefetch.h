// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.h"

namespace ucx_ib_dmabuf {

// Predicts the use of new allocations by their size, rounded up to a power of
// two. An allocation is expected to be used if two of its size were, and at
// most 1 in 20 of the latest 64 was released unused. Each allocation counts,
// registered or not, so a size that was given up comes back by itself. Needs no
// memory. Under the cache's lock.
class predictor {
public:
    // New memory. Returns whether it is to be registered, after take().
    bool note_allocation(address_range memory)
    {
        const kind &its = kind_of(memory);
        if (its.used == 0) {
            return false;
        }
        // A program that changes its ways does limited harm.
        const auto open = std::ranges::count_if(fresh_, [&](const fresh &each) {
            return !each.memory.empty() && &kind_of(each.memory) == &its;
        });
        fresh &oldest   = fresh_[next_++ % fresh_.size()];
        oldest          = {memory, its.is_expected() && open < its.used};
        return oldest.waits;
    }
    // The first use of an allocation.
    void note_use(address_range memory)
    {
        kind &its = kind_of(memory);
        its.count(&its.used);
        if (fresh *found = find(memory)) {
            *found = {};
        }
    }
    // Memory was released.
    void note_release(address_range memory)
    {
        if (memory == everything) {
            fresh_ = {};
        } else if (fresh *found = find(memory)) {
            kind &its = kind_of(found->memory);
            its.count(&its.unused);
            *found = {};
        }
    }

    // Whether an allocation was neither used nor released since.
    bool is_fresh(address_range memory) const
    {
        return std::ranges::any_of(
            fresh_, [&](const fresh &each) { return each.memory == memory; });
    }

    bool has_next() const { return std::ranges::any_of(fresh_, &fresh::waits); }
    // The next allocation to be registered, which exists.
    address_range take()
    {
        fresh &next = *std::ranges::find_if(fresh_, &fresh::waits);
        next.waits  = false;
        return next.memory;
    }

private:
    struct kind {
        int used = 0, unused = 0; // allocations

        bool is_expected() const
        {
            return used >= 2 && unused * 20 <= used + unused;
        }
        void count(int *which)
        {
            ++*which;
            if (used + unused > 64) {
                used /= 2;
                unused = (unused + 1) / 2;
            }
        }
    };
    // A recent allocation that was neither used nor released.
    struct fresh {
        address_range memory;
        bool waits = false; // to be registered
    };

    kind &kind_of(address_range memory)
    {
        return kinds_[size_t(std::bit_width(memory.size() - 1))];
    }
    fresh *find(address_range memory)
    {
        const auto found = std::ranges::find_if(fresh_, [&](const fresh &each) {
            return each.memory.lo == memory.lo && !each.memory.empty();
        });
        return found == fresh_.end() ? nullptr : &*found;
    }

    std::array<kind, 65> kinds_;
    std::array<fresh, 64> fresh_;
    size_t next_ = 0;
};

} // namespace ucx_ib_dmabuf
