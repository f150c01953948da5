// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "counters.h"
#include <sys/types.h>

namespace ucx_ib_dmabuf {

// Renders the counters of any process as text. Writes to the caller's memory
// and allocates nothing, as the process may be ending. The result lies in that
// memory; it is empty if there is too little room. This size suffices for this
// process, whatever the names.
constexpr size_t text_max = 1 << 20;

// A line of printable ASCII: an object with "pid" and each metric by its name.
// It has only label values with a number other than 0, "hooks_missing" only if
// a hook is missing, and in "pairs" only those that have counted.
std::string_view render_json(const described_counters &now, pid_t pid,
                             std::span<char> out) noexcept;

// Prometheus' text format, version 0.0.4. Names begin with "ucx_ib_dmabuf_",
// and those of counters end in "_total". Each sample has the labels "pid" and
// "program" (its first 63 bytes), so that the files of several processes can
// lie in one folder of a node exporter.
std::string_view render_prometheus(const described_counters &now, pid_t pid,
                                   const char *program,
                                   std::span<char> out) noexcept;

} // namespace ucx_ib_dmabuf
