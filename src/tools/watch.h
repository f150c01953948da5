// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <vector>

namespace ucx_ib_dmabuf::info {

// Prints the plug-in's counters of running programs once a second, the busiest
// programs first: these processes and their descendants, or all accessible ones
// if none is named. 0 rounds last until a signal, or until no named one is
// left. With `json` it prints each process's own line, unchanged. Returns the
// exit status: 0, or 1 if there was no program.
int watch(const std::vector<int> &pids, unsigned rounds, bool json);

// A running program. Its answers are not to be trusted.
struct program {
    int pid = 0;
    std::string name{}; // any bytes
    std::unique_ptr<live_reader> page{};
    bool answers = false;
    // The last two answers.
    using answer  = std::unique_ptr<described_counters>;
    answer now    = std::make_unique<described_counters>(),
           before = std::make_unique<described_counters>();

    uint64_t lookups() const; // between the two
};

// table.cc. Prints a round, the programs with most lookups first. On a terminal
// it fits the size and overwrites the last round.
void print_table(std::vector<const program *> rows);

} // namespace ucx_ib_dmabuf::info
