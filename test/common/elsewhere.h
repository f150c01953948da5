// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Whether run() is true in a child of fork, which ends then.
template <typename Run>
bool in_child(Run &&run)
{
    const pid_t child = fork();
    int status        = -1;

    if (child == 0) {
        _exit(run() ? 0 : 1);
    }
    return (waitpid(child, &status, 0) == child) && (status == 0);
}

// run(0), run(1), ... at once, each in a thread of its own.
template <typename Run>
void in_threads(unsigned count, Run &&run)
{
    std::vector<std::thread> all;

    for (unsigned i = 0; i < count; ++i) {
        all.emplace_back([&run, i] { run(i); });
    }
    for (std::thread &each : all) {
        each.join();
    }
}
