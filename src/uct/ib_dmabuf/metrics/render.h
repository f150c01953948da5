// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "metric.h"
#include <span>
#include <string_view>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

// A process's metrics as text. Writes into the caller's memory and takes none
// of its own: the process may be at its end. What is returned lies in there; it
// is empty if there is not enough room: so much is enough, whatever the names.
constexpr size_t json_max       = 192 << 10;
constexpr size_t prometheus_max = 1 << 20;

struct process_name {
    pid_t pid;
    const char *program; // any bytes; 63 of them are told
};

// A line of printable ASCII: an object with "pid" and each metric by its name,
// "export_time" and "registration_time" with the numbers of histogram::counts,
// "fallbacks", those that there were, "hooks_missing" where something is, and
// "pairs", those that count anything.
std::string_view render_json(const metrics &now, const process_name &whose,
                             std::span<char> out) noexcept;

// Prometheus' text format, version 0.0.4: names begin with "ucx_ib_dmabuf_",
// counters' end in "_total", and each sample has the labels "pid" and
// "program", so that the files of several processes can lie in one folder of a
// node exporter's.
std::string_view render_prometheus(const metrics &now,
                                   const process_name &whose,
                                   std::span<char> out) noexcept;

} // namespace ucx_ib_dmabuf
