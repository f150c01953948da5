// SPDX-License-Identifier: BSD-3-Clause
//
// What is told does no harm: the process ends, or goes on, as it would have.
#include "faults.h"
#include <array>
#include <atomic>
#include <fcntl.h>
#include <pthread.h>
#include <thread>
#include <ucontext.h>

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

// Unwinding reads the instruction that faulted, which nobody may.
void run_into_gpu()
{
    reinterpret_cast<void (*)()>(gpu)();
}

TEST_F(test_fault, a_fault_in_the_unwinder_is_nobodys)
{
    for (const int flags : {0, SA_NODEFER, static_cast<int>(SA_RESETHAND)}) {
        const end result = in_child([&] {
            handle(recover, flags);
            tell_of_touches(is_gpu);
            if (sigsetjmp(recovered, 1) == 0) {
                run_into_gpu();
            }
            _exit((addresses == gpu) ? 42 : 1);
        });
        EXPECT_TRUE(result.exited_with(42)) << flags << ": " << result.status;
        EXPECT_EQ(result.said, "");
    }
}

TEST_F(test_fault, nor_is_it_the_end_of_telling)
{
    const end result = in_child([] {
        handle(recover);
        tell_of_touches(is_gpu);
        if (sigsetjmp(recovered, 1) == 0) {
            run_into_gpu();
        }
        if (sigsetjmp(recovered, 1) == 0) {
            MPI_Allreduce(gpu);
        }
    });

    EXPECT_TRUE(result.exited_with(0)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
}

// As Open MPI's, which is for once: a second fault is the end of the process.
TEST_F(test_fault, it_is_told_before_another_thread_ends_the_process)
{
    for (int i = 0; i < 20; ++i) {
        const end result = in_child([] {
            static std::atomic<int> ready{0};
            const auto touch = [] {
                for (++ready; ready < 2;) {
                }
                MPI_Allreduce(gpu);
            };
            handle([](int, siginfo_t *, void *) { _exit(42); },
                   static_cast<int>(SA_RESETHAND));
            tell_of_touches(is_gpu);
            std::thread other(touch);
            touch();
        });
        EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
    }
}

#ifdef __x86_64__
TEST_F(test_fault, theirs_has_the_context_without_asking)
{
    const end result = in_child([] {
        struct sigaction action {};
        action.sa_sigaction = [](int, siginfo_t *, void *context) {
            const auto *at = static_cast<ucontext_t *>(context);
            _exit((at->uc_mcontext.gregs[REG_CR2] ==
                   reinterpret_cast<intptr_t>(host))
                      ? 42
                      : 1);
        };
        sigaction(SIGSEGV, &action, nullptr);
        tell_of_touches(is_gpu);
        MPI_Allreduce(host);
    });

    EXPECT_TRUE(result.exited_with(42)) << result.status;
}
#endif

// What lies below an alternate stack is another's, and nothing guards it.
TEST_F(test_fault, an_alternate_stack_is_not_overrun)
{
    const long least = sysconf(_SC_MINSIGSTKSZ);
    for (const size_t beside : {1024, 2048, 4096, 8192, 16384}) {
        const end result = in_child([&] {
            static std::array<uint8_t, 1 << 16> memory;
            const size_t below  = memory.size() / 2;
            const stack_t stack = {memory.data() + below, 0,
                                   static_cast<size_t>(least) + beside};
            memory.fill(0xa5);
            sigaltstack(&stack, nullptr);
            handle(recover, SA_ONSTACK);
            tell_of_touches(is_gpu);
            if (sigsetjmp(recovered, 1) == 0) {
                MPI_Allreduce(gpu);
            }
            _exit(std::any_of(memory.begin(), memory.begin() + below,
                              [](uint8_t byte) { return byte != 0xa5; }));
        });
        EXPECT_TRUE(result.exited_with(0)) << beside << ": " << result.status;
        EXPECT_TRUE((beside < 16384) || result.named(line_for(gpu)));
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
