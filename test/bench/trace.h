// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

// A step of a trace, as test/bench/traces.awk describes it.
struct trace_step {
    enum class action { device, nics, budget, alloc, map, free, use } what;
    uintptr_t address; // device, budget: bytes; nics: their number
    size_t size;
    int which; // GPU or NIC; -1: none given
};

// Returns false, with the line in *error, if the text is not a trace.
bool read_trace(std::istream &in, std::vector<trace_step> *out,
                std::string *error);
