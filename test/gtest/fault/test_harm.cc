// SPDX-License-Identifier: BSD-3-Clause
//
// What is told does no harm: the process ends, or goes on, as it would have.
#include "faults.h"
#include <array>
#include <fcntl.h>
#include <pthread.h>
#include <thread>

namespace ucx_ib_dmabuf {
namespace {

// Stderr becomes a pipe; returns its other end.
int pipe_stderr()
{
    int ends[2];

    EXPECT_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

TEST_F(test_fault, that_nobody_reads_is_not_what_it_dies_of)
{
    const end died    = in_child([] {
        close(pipe_stderr());
        tell_of_touches(is_gpu);
        MPI_Allreduce(gpu);
    });
    const end went_on = in_child([] {
        close(pipe_stderr());
        handle(recover);
        tell_of_touches(is_gpu);
        if (sigsetjmp(recovered, 1) == 0) {
            MPI_Allreduce(gpu);
        }
    });

    EXPECT_TRUE(died.died_of(SIGSEGV)) << died.status;
    EXPECT_TRUE(went_on.exited_with(0)) << went_on.status;
}

TEST_F(test_fault, that_nobody_reads_yet_is_not_waited_for)
{
    const end result = in_child([] {
        const std::array<char, 4096> bytes{};
        pipe_stderr();
        fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
        while (write(STDERR_FILENO, bytes.data(), bytes.size()) > 0) {
        }
        fcntl(STDERR_FILENO, F_SETFL, 0);
        tell_of_touches(is_gpu);
        alarm(60); // it would wait for ever
        MPI_Allreduce(gpu);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
}

TEST_F(test_fault, a_thread_that_was_cancelled_does_not_end_in_it)
{
    const end result = in_child([] {
        handle(recover);
        tell_of_touches(is_gpu);
        pthread_cancel(pthread_self());
        if (sigsetjmp(recovered, 1) == 0) {
            MPI_Allreduce(gpu);
        }
        _exit(42);
    });

    EXPECT_TRUE(result.exited_with(42)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
}

} // namespace
} // namespace ucx_ib_dmabuf
