// SPDX-License-Identifier: BSD-3-Clause
//
// What is told of GPU memory that the CPU runs into, and who else is.
#include "faults.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>

extern "C" int MPI_Reduce(void *buffer);
extern "C" int MPI_Waitall(void *buffer);

namespace ucx_ib_dmabuf {
namespace {

void note_and_exit(int, siginfo_t *info, void *)
{
    if (write(STDERR_FILENO, "theirs\n", 7) < 0) {
        _exit(1);
    }
    _exit((info->si_addr == gpu) ? 42 : 43);
}

TEST_F(test_fault, the_call_is_named_and_the_process_dies)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        MPI_Allreduce(gpu);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
    EXPECT_TRUE(result.named("(libfake_mpi.so")) << result.said;
    EXPECT_EQ(lines(result.said), 1u) << result.said;
}

TEST_F(test_fault, the_call_is_the_programs_and_the_library_no_tools)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        MPI_Reduce(gpu);
    });

    EXPECT_TRUE(result.named(": MPI_Reduce touched ")) << result.said;
    EXPECT_TRUE(result.named("(libfake_mpi.so")) << result.said;
}

TEST_F(test_fault, a_call_without_a_frame_is_told_without_its_name)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        MPI_Waitall(gpu);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV));
    EXPECT_TRUE(result.named("ib_dmabuf: MPI touched GPU memory at "))
        << result.said;
    EXPECT_TRUE(result.named("(libfake_mpi.so")) << result.said;
    EXPECT_TRUE(result.named("Copy to host memory for this call,"))
        << result.said;
}

TEST_F(test_fault, in_another_thread)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        std::thread([] { MPI_Allreduce(gpu); }).join();
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
}

TEST_F(test_fault, host_memory_is_nobodys_business)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        MPI_Allreduce(host);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
    EXPECT_EQ(result.said, "");
}

TEST_F(test_fault, nor_what_the_program_touches_itself)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        *static_cast<volatile uint8_t *>(gpu) = 1;
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
    EXPECT_EQ(result.said, "");
}

TEST_F(test_fault, who_was_there_before_goes_on)
{
    const end result = in_child([] {
        handle(note_and_exit);
        tell_of_touches(is_gpu);
        MPI_Allreduce(gpu);
    });

    EXPECT_TRUE(result.exited_with(42)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
    EXPECT_TRUE(result.named("\ntheirs\n")) << result.said;
}

TEST_F(test_fault, who_recovers_recovers_time_and_again)
{
    const end result = in_child([] {
        handle(recover);
        tell_of_touches(is_gpu);
        for (int i = 0; i < 3; ++i) {
            if (sigsetjmp(recovered, 1) == 0) {
                MPI_Allreduce(host);
                _exit(1);
            }
            if ((addresses != host) || (codes != SEGV_ACCERR)) {
                _exit(2);
            }
        }
        if (sigsetjmp(recovered, 1) == 0) {
            MPI_Allreduce(gpu);
            _exit(3);
        }
    });

    EXPECT_TRUE(result.exited_with(0)) << result.status;
    EXPECT_EQ(lines(result.said), 1u) << result.said;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
}

// What a later program is told would be the same again.
TEST_F(test_fault, it_is_told_once)
{
    const end result = in_child([] {
        handle(recover);
        tell_of_touches(is_gpu);
        for (int i = 0; i < 3; ++i) {
            if (sigsetjmp(recovered, 1) == 0) {
                MPI_Allreduce(gpu);
            }
        }
    });

    EXPECT_TRUE(result.exited_with(0)) << result.status;
    EXPECT_EQ(lines(result.said), 1u) << result.said;
}

TEST_F(test_fault, theirs_has_its_stack_and_its_mask)
{
    const end result = in_child([] {
        static uint8_t stack[1 << 16];
        const stack_t other = {stack, 0, sizeof(stack)};
        sigset_t blocked;

        sigaltstack(&other, nullptr);
        handle(
            [](int, siginfo_t *, void *) {
                uint8_t here;
                sigset_t now;
                pthread_sigmask(SIG_BLOCK, nullptr, &now);
                const bool is_there =
                    (&here >= stack) && (&here < stack + sizeof(stack));
                _exit(!is_there + 2 * !sigismember(&now, SIGUSR1) +
                      4 * !sigismember(&now, SIGSEGV));
            },
            SA_ONSTACK);
        tell_of_touches(is_gpu);
        sigemptyset(&blocked);
        MPI_Allreduce(gpu);
    });

    EXPECT_TRUE(result.exited_with(0)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
}

TEST_F(test_fault, theirs_is_for_once_if_it_was)
{
    const end result = in_child([] {
        handle(recover, static_cast<int>(SA_RESETHAND));
        tell_of_touches(is_gpu);
        if (sigsetjmp(recovered, 1) == 0) {
            MPI_Allreduce(host);
        }
        MPI_Allreduce(host); // the default action
        _exit(1);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
}

TEST_F(test_fault, what_is_sent_comes_as_it_was_sent)
{
    const auto send = [] { syscall(SYS_tgkill, getpid(), gettid(), SIGSEGV); };
    const end by_default = in_child([&] {
        tell_of_touches(is_gpu);
        send();
        _exit(1);
    });
    const end to_theirs  = in_child([&] {
        handle(recover);
        tell_of_touches(is_gpu);
        if (sigsetjmp(recovered, 1) == 0) {
            send();
        }
        _exit(codes != SI_TKILL);
    });
    const end ignored    = in_child([&] {
        std::signal(SIGSEGV, SIG_IGN);
        tell_of_touches(is_gpu);
        send();
    });

    EXPECT_TRUE(by_default.died_of(SIGSEGV)) << by_default.status;
    EXPECT_TRUE(to_theirs.exited_with(0)) << to_theirs.status;
    EXPECT_TRUE(ignored.exited_with(0)) << ignored.status;
    EXPECT_EQ(by_default.said + to_theirs.said + ignored.said, "");
}

// SA_SIGINFO says nothing of whether there is a function.
TEST_F(test_fault, nobody_is_nobody_with_siginfo)
{
    const auto with = [](void (*handler)(int)) {
        return in_child([&] {
            struct sigaction action {};
            action.sa_handler = handler;
            action.sa_flags   = SA_SIGINFO;
            sigaction(SIGSEGV, &action, nullptr);
            tell_of_touches(is_gpu);
            syscall(SYS_tgkill, getpid(), gettid(), SIGSEGV);
        });
    };

    EXPECT_TRUE(with(SIG_IGN).exited_with(0));
    EXPECT_TRUE(with(SIG_DFL).died_of(SIGSEGV));
}

// The kernel sends some that no instruction faults with again.
TEST_F(test_fault, what_the_kernel_sends_once_is_not_lost)
{
    const end result = in_child([] {
        siginfo_t info{};
        info.si_signo = SIGSEGV;
        info.si_code  = SI_KERNEL;
        tell_of_touches(is_gpu);
        syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
}

TEST_F(test_fault, what_the_program_installs_later_stands)
{
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        handle(note_and_exit);
        tell_of_touches(is_gpu);
        MPI_Allreduce(gpu);
    });

    EXPECT_TRUE(result.exited_with(42)) << result.status;
    EXPECT_EQ(result.said, "theirs\n");
}

TEST_F(test_fault, who_came_later_and_calls_ours_is_told)
{
    static struct sigaction ours;
    const end result = in_child([] {
        tell_of_touches(is_gpu);
        sigaction(SIGSEGV, nullptr, &ours);
        handle([](int signal, siginfo_t *info, void *context) {
            ours.sa_sigaction(signal, info, context);
        });
        MPI_Allreduce(gpu);
    });

    EXPECT_TRUE(result.died_of(SIGSEGV)) << result.status;
    EXPECT_TRUE(result.named(line_for(gpu))) << result.said;
}

} // namespace
} // namespace ucx_ib_dmabuf
