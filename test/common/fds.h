// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string_view>

// Counts this process's open descriptors by the beginning of their link:
// "/dmabuf:" for dma-bufs, "/memfd:cuda_sim" for the memory of simulated GPUs.
// Leaves out the plug-in's page of metrics (docs/info.md): it exists from the
// first memory domain on, and in no forked child. test_live.cc counts it.
inline int count_fds(std::string_view link = "")
{
    int count = 0;
    std::error_code gone; // ignored: a descriptor may be closed by now

    for (const auto &fd :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        const auto target = std::filesystem::read_symlink(fd.path(), gone);
        count += target.native().starts_with(link) &&
                 !target.native().starts_with("/memfd:ucx-ib-dmabuf-metrics");
    }
    return count;
}
