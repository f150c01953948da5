// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Counts a thread's instructions by single steps: the same number each time, on
// any machine. (Under valgrind UCX installs no hooks, and so has no cache.)
struct steps {
    uint64_t instructions = 0;
    uint64_t own = 0; // of these in the plug-in, and in libc on its behalf
    uint64_t system_calls = 0; // by the plug-in
    uint64_t loader_calls = 0; // by the plug-in: dlopen() and its kin
};

// Begin and end a count. An empty count has some steps, too.
void count_begin();
void count_end();

// Runs `body` in a child process and returns a count for each count_begin() and
// count_end() of its thread. Throws if the child fails. Call it before other
// threads run.
std::vector<steps> count_steps(const std::function<void()> &body);
