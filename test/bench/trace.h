// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

// A step of a trace, as test/bench/traces.awk describes them.
struct trace_step {
    enum class action { device, nics, budget, alloc, map, free, use } what;
    uintptr_t address; // of a device and a budget: bytes; of nics: how many
    size_t size;
    int which; // GPU or NIC; -1: not said
};

// False, and says where, if the text is not a trace.
bool read_trace(std::istream &in, std::vector<trace_step> *out,
                std::string *error);
