// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Calls run() in a forked child; returns whether it returned true there.
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

// Calls run(0), run(1), ... concurrently, each in a thread of its own.
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
