// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_INSTRUCTIONS_H_
#define UCX_IB_DMABUF_TEST_BENCH_INSTRUCTIONS_H_

#include <cstdint>
#include <functional>
#include <vector>

// Counts instructions by single steps: the same each time, on any machine.
// (Under valgrind UCX installs no hooks, and so has no cache.)

// Where a count ends and the next begins.
void count_mark();

// Runs `body` in a child process, and gives how many instructions the thread
// that runs it executed from each mark to the next, with some for the mark.
// Throws if the child fails. To be called before other threads run.
std::vector<uint64_t> count_instructions(const std::function<void()> &body);

#endif
