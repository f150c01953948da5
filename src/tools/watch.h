// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <uct/ib_dmabuf/stats/counters.h>
#include <vector>

namespace ucx_ib_dmabuf::info {

struct watch_options {
    // These processes and their descendants; if empty, all accessible ones.
    std::vector<int> pids{};
    unsigned rounds = 0;     // 0: until a signal, or until none is left
    bool json       = false; // each process's own line, unchanged
    // Fits a terminal's size; each round overwrites the last one.
    bool in_place = false;
    bool unicode  = false; // the terminal can print it
};

// Prints the plug-in's counters of running programs once a second, the busiest
// programs first. Returns the exit status: 0, or 1 if there was none.
int watch(const watch_options &how, FILE *to);

// The state of a watched program that is printed.
struct shown_program {
    int pid = 0;
    std::string name{}; // any bytes
    bool answers = false;
    // The last two answers, which are not to be trusted.
    using answer  = std::unique_ptr<described_counters>;
    answer now    = std::make_unique<described_counters>(),
           before = std::make_unique<described_counters>();
    std::deque<uint64_t> history{}; // of lookups, the newest last

    uint64_t lookups() const;
};

// The number of rounds in the history.
constexpr size_t history_length = 40;

// table.cc. Prints a round, the programs with most lookups first.
void print_table(std::vector<const shown_program *> rows,
                 const watch_options &how, FILE *to);

} // namespace ucx_ib_dmabuf::info
