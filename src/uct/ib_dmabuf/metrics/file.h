// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <climits>

namespace ucx_ib_dmabuf {

// The file that UCX_IB_DMABUF_STATS names. Nothing here takes memory, so that
// it may be used while the process ends.

// A file's name out of a pattern, in which "%p" is the process's number, "%h"
// the host's name and "%%" a "%"; a relative one counts from the folder. Null,
// or what is wrong with the pattern.
const char *expand_pattern(const char *pattern,
                           std::array<char, PATH_MAX> *path,
                           const char *folder = nullptr) noexcept;

// Whether write_metrics() can write there, as far as that can be seen without
// doing so: 0, or the errno.
int check_writable(const char *path) noexcept;

// Writes what the process has counted: Prometheus' text, in the place of what
// was there, so that nobody ever reads half of it, if the name ends in ".prom";
// else a line of JSON behind what is there. 0, or the errno.
int write_metrics(const char *path) noexcept;

} // namespace ucx_ib_dmabuf
