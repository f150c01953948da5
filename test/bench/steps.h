// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Counts what a thread executes by single steps: the same each time, on any
// machine. (Under valgrind UCX installs no hooks, and so has no cache.)
struct steps {
    uint64_t instructions = 0;
    uint64_t own          = 0; // of them in the plug-in, and in libc for it
    uint64_t system_calls = 0; // of the plug-in's
    uint64_t loader_calls = 0; // the same: dlopen() and its kin
};

// What is counted begins and ends here. Both themselves are some steps.
void count_begin();
void count_end();

// Runs `body` in a child process and returns a count for each count_begin() and
// count_end() of the thread that runs it. Throws if the child fails. To be
// called before other threads run.
std::vector<steps> count_steps(const std::function<void()> &body);
