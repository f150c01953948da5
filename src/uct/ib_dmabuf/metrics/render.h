// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "metrics.h"
#include <sys/types.h>

namespace ucx_ib_dmabuf {

// Counters of a process, this one or another, as text. Writes into the caller's
// memory and takes none of its own: the process may be at its end. What is
// returned lies in there; it is empty if there is not enough room: so much is
// enough for this process, whatever the names.
constexpr size_t text_max = 1 << 20;

// A line of printable ASCII: an object with "pid" and each metric by its name.
// Of labels those whose number is not 0; "hooks_missing" where something is;
// "pairs", those that have counted anything.
std::string_view render_json(const described_counters &now, pid_t pid,
                             std::span<char> out) noexcept;

// Prometheus' text format, version 0.0.4: names begin with "ucx_ib_dmabuf_",
// counters' end in "_total", and each sample has the labels "pid" and
// "program", any bytes of which 63 are told, so that the files of several
// processes can lie in one folder of a node exporter's.
std::string_view render_prometheus(const described_counters &now, pid_t pid,
                                   const char *program,
                                   std::span<char> out) noexcept;

} // namespace ucx_ib_dmabuf
