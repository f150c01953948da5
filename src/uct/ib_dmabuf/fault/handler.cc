// SPDX-License-Identifier: BSD-3-Clause
#include "handler.h"
#include "mpi_call.h"
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

// sigaction() as glibc has it: libucs_signal stands before that name, and keeps
// others from handling the signals that UCX handles.
// NOLINTNEXTLINE(readability-identifier-naming): glibc's name
extern "C" int __sigaction(int signal, const struct sigaction *action,
                           struct sigaction *previous);

namespace ucx_ib_dmabuf {
namespace {

std::atomic<gpu_memory_test> is_gpu_memory;
std::atomic_flag told;

struct handled {
    int signal;
    struct sigaction previous;
    std::atomic_flag is_used_up; // of SA_RESETHAND
};
handled all_handled[] = {{SIGSEGV, {}, {}}, {SIGBUS, {}, {}}};

// A line that is put together without the C library's help, which may take
// locks and memory.
class line {
public:
    line &operator<<(const char *text)
    {
        while ((*text != '\0') && (used_ < sizeof(text_))) {
            text_[used_++] = *text++;
        }
        return *this;
    }
    line &operator<<(uintptr_t address)
    {
        char digits[2 * sizeof(address) + 1] = {};
        char *first                          = digits + sizeof(digits) - 1;
        do {
            *--first = "0123456789abcdef"[address % 16];
        } while ((address /= 16) != 0);
        return *this << "0x" << first;
    }
    // Where nobody reads, the process must neither wait nor end of SIGPIPE. Not
    // by the C library's functions: in them a thread ends that was cancelled,
    // and tools stand before them, with locks.
    void print() const
    {
        pollfd to      = {STDERR_FILENO, POLLOUT, 0};
        timespec limit = {1, 0};
        if ((syscall(SYS_ppoll, &to, 1, &limit, nullptr, 0) == 1) &&
            (to.revents == POLLOUT)) {
            syscall(SYS_write, STDERR_FILENO, text_, used_);
        }
    }

private:
    char text_[768];
    size_t used_ = 0;
};

const char *name_of_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return (slash != nullptr) ? slash + 1 : path;
}

void tell(uintptr_t address)
{
    const mpi_call call = find_mpi_call();
    if (call.name == nullptr) {
        return;
    }
    const char *library = name_of_file(call.library);
    const bool is_known = (*call.name != '\0');
    line text;
    text << "ib_dmabuf: " << (is_known ? call.name : "MPI")
         << " touched GPU memory at " << address << " with the CPU: this MPI ("
         << ((*library == '\0') ? "in the program" : library)
         << ") is not CUDA-aware. Copy to host memory for "
         << (is_known ? call.name : "this call")
         << ", or use an MPI that is built with CUDA; docs/stock-mpi.md has "
            "the calls that take GPU memory all the same\n";
    text.print();
    told.test_and_set();
}

// Nothing guards the end of an alternate stack. Telling takes 3 KiB, and the
// loader as much where it binds a function on the way.
bool has_room()
{
    stack_t other{};
    uint8_t here = 0;

    if (sigaltstack(nullptr, &other) != 0) {
        return false;
    }
    const size_t room = reinterpret_cast<uintptr_t>(&here) -
                        reinterpret_cast<uintptr_t>(other.ss_sp);
    return (room >= other.ss_size) || (room >= 8192); // on another, or enough
}

std::atomic<pid_t> teller; // the thread that tells; 0: none
sigjmp_buf given_up;

// Other threads wait until it is told: they may be the end of the process.
bool begin_to_tell()
{
    for (int i = 0; (i < 2000) && !told.test(); ++i) {
        timespec rest = {0, 1000000};
        pid_t nobody  = 0;
        if (teller.compare_exchange_strong(nobody, gettid())) {
            return true;
        }
        syscall(SYS_ppoll, nullptr, 0, &rest, nullptr, 0);
    }
    return false;
}

// Nobody knows what the stack looks like, so a fault may come of unwinding it:
// the one that there was is what others get, and what the process dies of.
[[gnu::noinline]] void try_to_tell(uintptr_t address)
{
    sigset_t faults, before;

    if (!begin_to_tell()) {
        return;
    }
    sigemptyset(&faults);
    for (const handled &one : all_handled) {
        sigaddset(&faults, one.signal);
    }
    pthread_sigmask(SIG_UNBLOCK, &faults, &before);
    if (sigsetjmp(given_up, 0) == 0) {
        tell(address);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    teller = 0;
}

// Whatever SA_SIGINFO says: it is the same place as sa_handler.
bool is_function(const struct sigaction &action)
{
    return (action.sa_handler != SIG_DFL) && (action.sa_handler != SIG_IGN);
}

// Not on the stack of go_on(), whose call at the end could be no jump then.
const struct sigaction by_default = {};

// Ours has the same mask and flags, so that a call is what the kernel would
// have done; only SA_RESETHAND is up to us. With nobody there it is the
// kernel's turn: the signal is sent again, as not every instruction that got
// one faults again.
void go_on(handled &one, siginfo_t *info, void *context)
{
    const struct sigaction &previous = one.previous;
    const bool is_for_once =
        is_function(previous) && ((previous.sa_flags & SA_RESETHAND) != 0);
    const bool is_over = !is_function(previous) ||
                         (is_for_once && one.is_used_up.test_and_set());

    if (is_for_once || is_over) {
        __sigaction(one.signal, is_for_once ? &by_default : &previous, nullptr);
    }
    if (is_over) {
        syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), one.signal, info);
    } else {
        // Whatever SA_SIGINFO says: x86_64's kernel passes all to everybody,
        // and some without it look at the context.
        previous.sa_sigaction(one.signal, info, context);
    }
}

[[gnu::noinline]] void look_at(const siginfo_t &info)
{
    const int error    = errno;
    const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
    const pid_t who    = teller.load();
    // Not what another process, or raise(), sent.
    const bool is_fault = info.si_code > 0;

    if (is_fault && (who != 0) && (who == gettid())) {
        siglongjmp(given_up, 1);
    }
    if (is_fault && is_gpu_memory.load()(address) && has_room()) {
        try_to_tell(address);
    }
    errno = error;
}

// The previous handler is left to by a jump, as nothing stands behind it: in
// the backtrace that it may print, a frame of ours would be where the program
// crashed.
void on_fault(int signal, siginfo_t *info, void *context)
{
    look_at(*info);
    go_on(all_handled[signal == all_handled[1].signal], info, context);
}

void handle(handled &one)
{
    struct sigaction ours {
    }, replaced{};

    // Known before ours can be called.
    if (__sigaction(one.signal, nullptr, &one.previous) != 0) {
        return;
    }
    if (is_function(one.previous)) {
        ours = one.previous;
    } else {
        ours.sa_flags = SA_ONSTACK; // where a stack has overflown
    }
    // Ours stays until it is told: another thread's fault would be the end.
    ours.sa_flags &= ~static_cast<int>(SA_RESETHAND);
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = on_fault;
    // Another thread's may have come meanwhile.
    if ((__sigaction(one.signal, &ours, &replaced) == 0) &&
        (replaced.sa_handler != one.previous.sa_handler)) {
        one.previous = replaced;
    }
}

} // namespace

void tell_of_touches(gpu_memory_test test) noexcept
{
    gpu_memory_test none = nullptr;

    if ((is_gpu_memory.load(std::memory_order_relaxed) == nullptr) &&
        is_gpu_memory.compare_exchange_strong(none, test)) {
        for (handled &one : all_handled) {
            handle(one);
        }
    }
}

} // namespace ucx_ib_dmabuf
