// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string_view>

// How many file descriptors this process has open whose link begins so:
// "/dmabuf:" for dma-bufs, "/memfd:cuda_sim" for the memory of simulated GPUs.
// The page that the plug-in shows (docs/info.md) is there from the first
// domain on and in no child of a fork; test_live.cc counts it.
inline int count_fds(std::string_view link = "")
{
    int count = 0;
    std::error_code gone; // the iterator's own

    for (const auto &fd :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        const auto target = std::filesystem::read_symlink(fd.path(), gone);
        count += target.native().starts_with(link) &&
                 !target.native().starts_with("/memfd:ucx-ib-dmabuf-metrics");
    }
    return count;
}
