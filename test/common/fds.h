// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// Whether a descriptor's link is the plug-in's page of metrics (docs/info.md).
inline bool is_live_page(const std::filesystem::path &link)
{
    return link.native().starts_with("/memfd:ucx-ib-dmabuf-metrics");
}

// Returns the descriptor of a process's page, or -1.
inline int live_page_fd(const std::string &fds = "/proc/self/fd")
{
    std::error_code gone; // ignored, as below

    for (const auto &fd : std::filesystem::directory_iterator(fds)) {
        if (is_live_page(std::filesystem::read_symlink(fd.path(), gone))) {
            return std::stoi(fd.path().filename());
        }
    }
    return -1;
}

// Counts this process's open descriptors by the beginning of their link:
// "/dmabuf:" for dma-bufs, "/memfd:cuda_sim" for the memory of simulated GPUs.
// Leaves out the plug-in's page of metrics: it exists from the first memory
// domain on, and in no forked child.
inline int count_fds(std::string_view link = "")
{
    int count = 0;
    std::error_code gone; // ignored: a descriptor may be closed by now

    for (const auto &fd :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        const auto target = std::filesystem::read_symlink(fd.path(), gone);
        count += target.native().starts_with(link) && !is_live_page(target);
    }
    return count;
}
