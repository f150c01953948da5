// SPDX-License-Identifier: BSD-3-Clause
#include "stats_file.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

bool is_prometheus(std::string_view path)
{
    return path.ends_with(".prom");
}

// Blocks the signals that a write may raise: a reader that closes its pipe, or
// a limit of file sizes, must not change how the process ends.
class signals_held {
public:
    signals_held()
    {
        sigemptyset(&held_);
        sigaddset(&held_, SIGPIPE);
        sigaddset(&held_, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &held_, &before_);
    }
    ~signals_held()
    {
        constexpr timespec at_once{};
        while (sigtimedwait(&held_, nullptr, &at_once) > 0) {
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    signals_held(const signals_held &)            = delete;
    signals_held &operator=(const signals_held &) = delete;

private:
    sigset_t held_{}, before_{};
};

// Returns 0 or an errno. Closes the file even after an error.
int write_and_close(int fd, std::string_view all)
{
    const signals_held while_it_writes;

    if (fd < 0) {
        return errno;
    }
    // A single write, so that the lines of several processes do not mix.
    const ssize_t written = write(fd, all.data(), all.size());
    int error             = (written < 0) ? errno : 0;
    if ((error == 0) && (static_cast<size_t>(written) != all.size())) {
        error = ENOSPC;
    }
    if ((close(fd) != 0) && (error == 0)) {
        error = errno;
    }
    return error;
}

// Does not wait for a reader to open a named pipe: an ending process must end.
int append_to(const char *path, std::string_view all)
{
    const int fd = open(
        path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);

    if (fd >= 0) { // but waits for a slow reader
        fcntl(fd, F_SETFL, O_APPEND);
    }
    return write_and_close(fd, all);
}

// The node exporter ignores names that do not end in ".prom".
int put_in_place_of(const char *path, std::string_view all)
{
    path_name made;
    const int length = snprintf(made.data(), made.size(), "%s.%lld.new", path,
                                static_cast<long long>(getpid()));

    if (static_cast<size_t>(length) >= made.size()) {
        return ENAMETOOLONG;
    }
    unlink(made.data()); // left by a dead process with this id
    const int fd =
        open(made.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return errno;
    }
    int error = write_and_close(fd, all);
    if ((error == 0) && (rename(made.data(), path) != 0)) {
        error = errno;
    }
    if (error != 0) {
        unlink(made.data());
    }
    return error;
}

} // namespace

const char *expand_pattern(const char *pattern, path_name *path,
                           const char *folder) noexcept
{
    std::array<char, HOST_NAME_MAX + 1> host{};
    text_writer to(*path);

    // A host name that is too long is truncated; that is no error.
    gethostname(host.data(), host.size() - 1);
    if ((*pattern != '/') && (folder != nullptr)) {
        to.add("%s/", folder);
    }
    for (; *pattern != '\0'; ++pattern) {
        if (*pattern != '%') {
            to.add("%c", *pattern);
            continue;
        }
        switch (*++pattern) {
        case 'p':
            to.add("%d", getpid());
            break;
        case 'h':
            to.add("%s", host.data());
            break;
        case '%':
            to.add("%%");
            break;
        default:
            return "what follows \"%\" is none of \"p\" (the process's "
                   "number), \"h\" (the host's name) and \"%\"";
        }
    }
    return to.result().empty() ? "the file's name is too long" : nullptr;
}

int check_writable(const char *path) noexcept
{
    const char *end = strrchr(path, '/');
    struct stat file {};
    path_name folder{"./"};

    if ((stat(path, &file) == 0) && S_ISDIR(file.st_mode)) {
        return EISDIR;
    }
    if (!is_prometheus(path) && (access(path, F_OK) == 0)) {
        return (access(path, W_OK) == 0) ? 0 : errno;
    }
    if (end != nullptr) { // with the slash, as it has to be a folder
        text_writer to(folder);
        to.add("%.*s", static_cast<int>(end - path) + 1, path);
    }
    return (access(folder.data(), W_OK | X_OK) == 0) ? 0 : errno;
}

int write_metrics(const char *path) noexcept
{
    // Static, as an ending process may have a small stack.
    static std::array<char, prometheus_max> memory;

    return is_prometheus(path)
               ? put_in_place_of(
                     path,
                     render_prometheus(process_counters, getpid(),
                                       program_invocation_short_name, memory))
               : append_to(path,
                           render_json(process_counters, getpid(), memory));
}

} // namespace ucx_ib_dmabuf
