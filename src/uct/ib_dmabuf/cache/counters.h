// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_COUNTERS_H_
#define UCX_IB_DMABUF_CACHE_COUNTERS_H_

#include <atomic>
#include <cstdint>

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
    event_count misses{0}, host_lookups{0}, registrations{0},
        deregistrations{0}, exports{0}, identity_checks{0}, identity_misses{0},
        invalidations{0}, evictions{0}, failures{0};
};

} // namespace ucx_ib_dmabuf

#endif
