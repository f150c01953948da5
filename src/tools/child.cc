// SPDX-License-Identifier: BSD-3-Clause
#include "child.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

// The new group lets the parent kill the child's children, too.
[[noreturn]] void be_child(const std::function<void(int to)> &what, int to)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        dup2(nowhere, fd);
    }
    alarm(2 * child_patience); // should the parent no longer wait
    what(to);
    _exit(0);
}

// Leaves an ended child as a zombie, so that its number stays its own.
bool has_ended(pid_t child)
{
    siginfo_t found{};

    return (waitid(P_PID, static_cast<id_t>(child), &found,
                   WEXITED | WNOHANG | WNOWAIT) != 0) ||
           (found.si_pid == child);
}

} // namespace

std::optional<std::string> ask_child(const std::function<void(int to)> &what)
{
    constexpr unsigned step = 5000; // microseconds
    unsigned left           = child_patience * (1'000'000 / step);
    const int answer        = memfd_create("answer", MFD_CLOEXEC);
    const pid_t child       = (answer < 0) ? -1 : fork();

    if (child < 0) {
        throw std::system_error(errno, std::generic_category(), "no child");
    }
    if (child == 0) {
        be_child(what, answer);
    }
    for (; !has_ended(child) && (left > 0); --left) {
        usleep(step);
    }
    kill(-child, SIGKILL);
    kill(child, SIGKILL); // it may be in another group
    waitpid(child, nullptr, 0);
    std::string text(static_cast<size_t>(lseek(answer, 0, SEEK_END)), '\0');
    const ssize_t length = pread(answer, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    close(answer);
    return (left > 0) ? std::optional(text) : std::nullopt;
}

} // namespace ucx_ib_dmabuf::info
