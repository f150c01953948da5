// SPDX-License-Identifier: BSD-3-Clause
#include "metric.h"
#include <algorithm>

namespace ucx_ib_dmabuf {

using enum metric_kind;

constexpr std::array<metric_info, metric_count> all_metrics{{
    {metric::hits, "hits", counter, "lookups",
     "Lookups that found a registration"},
    {metric::misses, "misses", counter, "lookups",
     "Lookups of GPU memory that had to register"},
    {metric::registrations, "registrations", counter, "registrations",
     "Registrations of dma-bufs that succeeded, one per NIC"},
    {metric::deregistrations, "deregistrations", counter, "registrations",
     "Registrations that ended"},
    {metric::exports, "exports", counter, "dma-bufs",
     "dma-bufs that the GPU's driver exported"},
    {metric::identity_checks, "identity_checks", counter, "checks",
     "Times that the driver was asked whether memory is still the same"},
    {metric::identity_misses, "identity_misses", counter, "checks",
     "Checks that found other memory, whose release was not seen"},
    {metric::invalidations, "invalidations", counter, "registrations",
     "Registrations that left the cache as their memory was released"},
    {metric::evictions, "evictions", counter, "registrations",
     "Registrations that made room for others"},
    {metric::failures, "failures", counter, "registrations",
     "Registrations that failed, one per NIC"},
    {metric::atomics, "atomics", counter, "operations",
     "Atomic operations on GPU memory done for UCP"},
    {metric::proofs, "proofs", counter, "proofs",
     "Proofs of a path between a NIC and a GPU"},
    {metric::refuted, "refuted", counter, "paths",
     "Paths that did not carry what was sent"},
    {metric::regions, "regions", gauge, "registrations",
     "Registrations that are kept"},
    {metric::registered_bytes, "registered_bytes", gauge, "bytes",
     "Registered GPU memory, counted for each NIC"},
    {metric::mapped_bytes, "mapped_bytes", gauge, "bytes",
     "Registered GPU memory, counted once for all NICs"},
    {metric::hooks_complete, "hooks_complete", gauge, "1 or 0",
     "1: every release of GPU memory is seen; 0: each use asks the driver"},
}};

constexpr std::array<pair_metric_info, pair_metric_count> all_pair_metrics{{
    {pair_metric::registrations, "registrations", counter, "registrations",
     "Registrations of the GPU's memory by the NIC that succeeded"},
    {pair_metric::deregistrations, "deregistrations", counter, "registrations",
     "Those of them that ended"},
    {pair_metric::invalidations, "invalidations", counter, "registrations",
     "Those of them that ended as their memory was released"},
    {pair_metric::evictions, "evictions", counter, "registrations",
     "Those of them that ended to make room for others"},
    {pair_metric::failures, "failures", counter, "registrations",
     "Registrations that failed"},
    {pair_metric::regions, "regions", gauge, "registrations",
     "Registrations that there are"},
    {pair_metric::registered_bytes, "registered_bytes", gauge, "bytes",
     "Length of these registrations"},
}};

template <typename Table>
static constexpr bool in_order(const Table &all)
{
    size_t next = 0;
    return std::ranges::all_of(all, [&next](const auto &each) {
        return static_cast<size_t>(each.id) == next++;
    });
}
static_assert(in_order(all_metrics) && in_order(all_pair_metrics));

} // namespace ucx_ib_dmabuf
