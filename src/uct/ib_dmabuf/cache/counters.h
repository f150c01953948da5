// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_COUNTERS_H_
#define UCX_IB_DMABUF_CACHE_COUNTERS_H_

#include "threads.h"
#include <array>

namespace ucx_ib_dmabuf {

// Counts without a lock. Hits are not here: each thread counts its own.
using event_count = std::atomic<uint64_t>;

inline void count(event_count &what, uint64_t by = 1)
{
    what.fetch_add(by, std::memory_order_relaxed);
}

struct event_counts {
    event_count locked_hits{0}; // those found under the lock
    event_count false_hits{0};  // where the identity was another
    event_count misses{0}, registrations{0}, deregistrations{0}, exports{0},
        identity_checks{0}, identity_misses{0}, invalidations{0}, evictions{0},
        failures{0};
};

// For what many threads count often.
class spread_count {
public:
    void add()
    {
        const thread_record *me = threads::current;
        size_t at               = me == nullptr ? 0 : me->index % places;
        count(counts_[at].value);
    }
    uint64_t total() const
    {
        uint64_t sum = 0;
        for (const auto &each : counts_) {
            sum += each.value.load(std::memory_order_relaxed);
        }
        return sum;
    }
    void reset()
    {
        for (auto &each : counts_) {
            each.value = 0;
        }
    }

private:
    static constexpr size_t places = 16;
    struct alignas(64) padded {
        event_count value{0};
    };
    std::array<padded, places> counts_;
};

} // namespace ucx_ib_dmabuf

#endif
