// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <climits>

namespace ucx_ib_dmabuf {

// The file that UCX_IB_DMABUF_STATS names. Nothing here allocates memory, as
// the process may be ending.

// Expands a file name: "%p" is the process id, "%h" the host name, "%%" a "%".
// A relative name is relative to `folder`. Returns nullptr, or the error in the
// pattern.
const char *expand_pattern(const char *pattern,
                           std::array<char, PATH_MAX> *path,
                           const char *folder = nullptr) noexcept;

// Whether write_metrics() can write there, as far as that can be checked
// without writing. Returns 0 or the errno.
int check_writable(const char *path) noexcept;

// Writes the process's counters. If the name ends in ".prom", replaces the file
// atomically by Prometheus' text; else appends a line of JSON. Returns 0 or the
// errno.
int write_metrics(const char *path) noexcept;

} // namespace ucx_ib_dmabuf
