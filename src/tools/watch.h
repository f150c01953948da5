// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <uct/ib_dmabuf/metrics/metrics.h>
#include <vector>

namespace ucx_ib_dmabuf::info {

struct watch_options {
    // These and what they started; none: all that may be looked into.
    std::vector<int> pids{};
    unsigned rounds = 0;     // 0: until a signal, or until none is left
    bool json       = false; // each process's own line, as it is
    // On a terminal, whose size is kept to: a round takes the last one's place.
    bool in_place = false;
    bool unicode  = false; // the terminal's characters
};

// Once a second what the plug-in counts in running programs, those that do most
// first. Status: 0, or 1 if there was none.
int watch(const watch_options &how, FILE *to);

// What is shown of a program that is watched.
struct shown_program {
    int pid = 0;
    std::string name{}; // any bytes
    bool answers = false;
    // The last two answers, which may lie.
    using answer  = std::unique_ptr<described_counters>;
    answer now    = std::make_unique<described_counters>(),
           before = std::make_unique<described_counters>();
    std::deque<uint64_t> history{}; // of lookups, the last one at its end

    uint64_t lookups() const;
};

// How many rounds the history is of.
constexpr size_t history_length = 40;

// table.cc. A round: those first that looked up most.
void print_table(std::vector<const shown_program *> rows,
                 const watch_options &how, FILE *to);

} // namespace ucx_ib_dmabuf::info
