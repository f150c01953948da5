// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.h"

namespace ucx_ib_dmabuf {

// Predicts the use of new allocations by their size, rounded up to a power of
// two. An allocation is expected to be used if two of its size were, and at
// most 1 in 20 of the latest 64 was released unused. Counts what was registered
// ahead, and others as far as there is place to watch them; without that only
// as long as all were used. So a size that was given up comes back by itself.
// Needs no memory. Under the cache's lock.
class predictor {
public:
    enum class fate : uint8_t { used, unused, unknown };

    // Whether to register it. A program that changes its ways does limited
    // harm.
    bool expects(address_range memory) const
    {
        const kind &its = kinds_[kind_of(memory)];
        if (its.used < 2 || its.unused * 20 > its.used + its.unused) {
            return false;
        }
        const auto waiting = std::ranges::count_if(all_, [&](auto &each) {
            return each.waits && kind_of(each.memory) == kind_of(memory);
        });
        return its.ahead + waiting < its.used;
    }
    // Watches new memory of a size that was used; `waits`: for take(). Memory
    // that is neither used nor released must not keep all places for ever.
    void watch(address_range memory, bool waits)
    {
        const kind &its = kinds_[kind_of(memory)];
        if (its.used + its.unused == 0) {
            return;
        }
        fresh *place = find(0);
        if (place == nullptr && (waits || ++passed_over_ % 16 == 0)) {
            place = &all_[next_++ % all_.size()];
        }
        if (place != nullptr) {
            *place = {memory, waits, ++watched_};
        }
    }
    // The first use or the end of memory that was registered ahead, is watched,
    // or is neither.
    void note(fate what, address_range memory, bool was_ahead = false)
    {
        // Newer memory may be watched at the address.
        fresh *found       = was_ahead ? nullptr : find(memory.lo);
        kind &its          = kinds_[kind_of(found ? found->memory : memory)];
        const bool counts  = was_ahead || found != nullptr;
        const bool is_used = what == fate::used && (counts || its.unused == 0);
        its.ahead -= was_ahead;
        its.used += is_used;
        its.unused += counts && what == fate::unused;
        if (its.used + its.unused > 64) {
            its.used /= 2;
            its.unused = (its.unused + 1) / 2;
        }
        if (found != nullptr) {
            *found = {};
        }
    }
    void note_release(address_range memory)
    {
        if (memory == everything) {
            all_ = {};
        } else if (memory.lo != 0) {
            note(fate::unused, memory);
        }
    }

    // Nothing waits for take() any more.
    void stop_waiting()
    {
        std::ranges::for_each(all_, [](fresh &each) { each.waits = false; });
    }
    bool has_next() const { return std::ranges::any_of(all_, &fresh::waits); }
    // The oldest allocation that waits, which exists. Counts as registered
    // ahead until it is noted.
    address_range take()
    {
        fresh &next = *std::ranges::min_element(all_, {}, [](auto &each) {
            return each.waits ? each.number : UINT64_MAX;
        });
        ++kinds_[kind_of(next.memory)].ahead;
        return std::exchange(next, {}).memory;
    }

private:
    struct kind {
        int used = 0, unused = 0; // allocations, as the next
        int ahead = 0;            // registered, not yet used or released
    };
    // A recent allocation that was neither used nor released.
    struct fresh {
        address_range memory;
        bool waits      = false; // to be registered
        uint64_t number = 0;     // in the order of watch()
    };

    static size_t kind_of(address_range memory)
    {
        return size_t(std::bit_width(memory.size() - 1));
    }
    // The one that begins there, or nullptr; 0: a free place.
    fresh *find(uintptr_t lo)
    {
        const auto found = std::ranges::find(
            all_, lo, [](const fresh &each) { return each.memory.lo; });
        return found == all_.end() ? nullptr : &*found;
    }

    std::array<kind, 65> kinds_;
    std::array<fresh, 64> all_;
    size_t next_ = 0, passed_over_ = 0;
    uint64_t watched_ = 0;
};

} // namespace ucx_ib_dmabuf
