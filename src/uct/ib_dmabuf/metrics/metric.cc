// SPDX-License-Identifier: BSD-3-Clause
#include "metric.h"

namespace ucx_ib_dmabuf {
namespace {

using enum metric_kind;

constexpr std::array<metric_info, metric_count> table{{
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
    {metric::staged_operations, "staged_operations", counter, "operations",
     "Operations for which the plug-in made a copy in host memory"},
    {metric::staged_bytes, "staged_bytes", counter, "bytes",
     "Length of these operations"},
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
}};

constexpr bool in_order()
{
    for (size_t i = 0; i < table.size(); ++i) {
        if (static_cast<size_t>(table[i].id) != i) {
            return false;
        }
    }
    return true;
}
static_assert(in_order());

} // namespace

const std::array<metric_info, metric_count> all_metrics = table;

} // namespace ucx_ib_dmabuf
