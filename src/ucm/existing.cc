// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory that is older than the hooks.
#include "cuda_events.h"
#include "release.h"
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ucx_ib_dmabuf {
namespace {

// As UCX's CUDA module: what the process cannot touch, among which are the
// addresses that the driver has reserved, and mappings of its devices.
bool may_be_cuda(const char *access, const char *path)
{
    return (strncmp(access, "---", 3) == 0) ||
           (strncmp(path, "/dev/nvidia", 11) == 0);
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
        uint64_t from = 0, to = 0;
        char access[5] = "", path[256] = "";
        if ((sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %255s",
                    &from, &to, access, path) >= 3) &&
            may_be_cuda(access, path)) {
            ucm::announce_range(from, to - from);
        }
    }
}

} // namespace ucx_ib_dmabuf
