// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "alloc_faults.h"
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace alloc_faults {

// For tests that use each_in_a_child(). The thread sanitizer forks slowly, and
// finds nothing in these tests.
class forking_test : public ::testing::Test {
protected:
    void SetUp() override
    {
#ifdef __SANITIZE_THREAD__
        GTEST_SKIP()
            << "the thread sanitizer forks slowly, and finds nothing here";
#endif
    }
};

// Like each(), but runs each plan in a process of its own, as an allocation
// made once per process can fail only then. The run ends with exit(), so that a
// sanitizer looks for leaks. The caller must not have used what the run needs.
template <typename Run>
unsigned each_in_a_child(Run &&run)
{
    enum { none_failed = 0, wrong = 1, one_failed = 2 };

    return each([&](plan &what) {
        int status = 0;
#ifdef __SANITIZE_ADDRESS__
        // A fork takes a third of a second there: of many allocations each
        // fifth fails.
        if ((what.nth > 100) && (what.nth % 5 != 0)) {
            what.failed = true;
            return;
        }
#endif
        fflush(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            [&]() noexcept { run(what); }(); // an exception terminates it
            exit(::testing::Test::HasFailure() ? wrong
                 : what.failed                 ? one_failed
                                               : none_failed);
        }
        EXPECT_EQ(child, waitpid(child, &status, 0));
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        EXPECT_TRUE((code == none_failed) || (code == one_failed))
            << "with allocation " << what.nth
            << (what.all ? " and all after it" : "") << " failing: "
            << (WIFSIGNALED(status) ? "signal " : "exit status ")
            << (WIFSIGNALED(status) ? WTERMSIG(status) : code);
        what.failed = code == one_failed;
    });
}

} // namespace alloc_faults
