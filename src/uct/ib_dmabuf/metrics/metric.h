// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fallbacks.h"
#include "histogram.h"
#include "pairs.h"
#include <array>
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// What each process counts of itself, in the order in which it is written;
// docs/info.md has the same list (test/gtest/metrics compares them).
enum class metric : uint8_t {
    hits,
    misses,
    registrations,
    deregistrations,
    exports,
    identity_checks,
    identity_misses,
    invalidations,
    evictions,
    failures,
    atomics,
    proofs,
    refuted,
    regions,
    registered_bytes,
    mapped_bytes,
    hooks_complete,
    end // none; how many there are
};

constexpr size_t metric_count = static_cast<size_t>(metric::end);

enum class metric_kind : uint8_t {
    counter, // since the process started, or forked
    gauge,   // now
};

template <typename Metric>
struct info_of {
    Metric id;
    const char *name; // in JSON; see metrics/render.h for Prometheus' names,
                      // of which a pair's begins with "pair_"
    metric_kind kind;
    const char *unit; // "bytes", or what is counted
    const char *help; // a line
};

using metric_info      = info_of<metric>;
using pair_metric_info = info_of<pair_metric>;

// In the order of metric.
extern const std::array<metric_info, metric_count> all_metrics;

// In the order of pair_metric.
extern const std::array<pair_metric_info, pair_metric_count> all_pair_metrics;

// Of one process, at one time.
struct metrics {
    std::array<uint64_t, metric_count> values{};
    histogram::counts export_time, registration_time;
    fallback_counts fallbacks;
    const char *hooks_missing = nullptr; // why hooks are not complete
    const pair_table *pairs   = nullptr; // null: none

    uint64_t &operator[](metric which)
    {
        return values[static_cast<size_t>(which)];
    }
    uint64_t operator[](metric which) const
    {
        return values[static_cast<size_t>(which)];
    }
};

} // namespace ucx_ib_dmabuf
