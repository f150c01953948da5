// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory that is older than the hooks.
#include "cuda_events.h"
#include "maps.h"
#include "release.h"
#include <cstring>

namespace ucx_ib_dmabuf {
namespace {

// As in UCX's CUDA module: mappings without access, which include the addresses
// that the driver has reserved, and mappings of its devices. `rest` is a line
// of /proc/self/maps behind the addresses.
bool may_be_cuda(const char *rest)
{
    return (strncmp(rest, " ---", 4) == 0) ||
           (strstr(rest, " /dev/nvidia") != nullptr);
}

} // namespace

bool cuda_event_is_of_old_memory() noexcept
{
    return ucm::this_thread.existing;
}

void cuda_events_announce_existing() noexcept
{
    ucm::each_mapping([](uint64_t from, uint64_t to, const char *rest) {
        if (may_be_cuda(rest)) {
            ucm::announce_range(from, to - from);
        }
    });
}

} // namespace ucx_ib_dmabuf
