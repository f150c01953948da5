// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory that is older than the hooks.
#include "cuda_events.h"
#include "release.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace ucx_ib_dmabuf {
namespace {

// As UCX's CUDA module: what the process cannot touch, among which are the
// addresses that the driver has reserved, and mappings of its devices. `rest`
// is a line of /proc/self/maps behind the addresses.
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
    const std::unique_ptr<FILE, int (*)(FILE *)> maps(
        fopen("/proc/self/maps", "re"), fclose);
    char line[512];

    while (maps && (fgets(line, sizeof(line), maps.get()) != nullptr)) {
        // Not by sscanf(), which takes longer than the kernel does.
        char *at            = line;
        const uint64_t from = strtoull(at, &at, 16);
        const uint64_t to   = (*at == '-') ? strtoull(at + 1, &at, 16) : 0;
        if ((from < to) && may_be_cuda(at)) {
            ucm::announce_range(from, to - from);
        }
    }
}

} // namespace ucx_ib_dmabuf
