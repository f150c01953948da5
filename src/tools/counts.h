// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucx_ib_dmabuf::info {

// Of a NIC and a GPU.
struct pair_counts {
    std::string nic{};
    int gpu                = -1; // not known
    uint64_t registrations = 0, evictions = 0, regions = 0, bytes = 0;
    uint64_t fallbacks = 0;
    std::string most{}; // path, and cause of fallbacks
};

// Of a program.
struct counts {
    uint64_t lookups = 0, misses = 0, registrations = 0, evictions = 0;
    uint64_t regions = 0, bytes = 0;
    uint64_t fallbacks = 0;
    std::string most{};               // of these: way and cause
    std::string hooks{};              // "all", "gaps", "?"
    std::string missing{};            // why hooks have gaps
    std::vector<pair_counts> pairs{}; // those with most bytes first
};

// A terminal takes some characters for orders: what is no printable ASCII
// becomes "?".
std::string printable(std::string text);

// Out of a line that render_json() made, or somebody who lies: whatever it is,
// this ends. Texts are printable.
counts counts_of(std::string_view json);

// The same line, of printable ASCII, with the number that the process has here
// and not in its container. "" where it is none.
std::string line_with_pid(int pid, std::string_view json);

} // namespace ucx_ib_dmabuf::info
