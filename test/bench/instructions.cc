// SPDX-License-Identifier: BSD-3-Clause
#include "instructions.h"
#include <csignal>
#include <stdexcept>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int mark = SIGUSR1;

} // namespace

void count_mark()
{
    raise(mark);
}

std::vector<uint64_t> count_instructions(const std::function<void()> &body)
{
    std::vector<uint64_t> counts;
    uint64_t steps = 0;
    bool counting  = false;
    int status     = 0;

    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
            _exit(1);
        }
        body();
        _exit(0);
    }
    while ((waitpid(child, &status, 0) == child) && WIFSTOPPED(status)) {
        long signal = WSTOPSIG(status);
        if (signal == mark) {
            if (counting) {
                counts.push_back(steps);
            }
            counting = true;
            steps    = 0;
            signal   = 0;
        } else if (signal == SIGTRAP) {
            ++steps;
            signal = 0;
        }
        ptrace(counting ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr,
               signal);
    }
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0)) {
        throw std::runtime_error("the child that is counted has failed");
    }
    return counts;
}
