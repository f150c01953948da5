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

// Returns 0 or an errno. Closes the file even after an error.
int write_and_close(int fd, std::string_view all)
{
    struct sigaction ignored {
    }, size{};

    if (fd < 0) {
        return errno;
    }
    // A limit of file sizes must not change how the process ends.
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &ignored, &size);
    // A single write, so that the lines of several processes do not mix.
    const ssize_t written = write(fd, all.data(), all.size());
    int error             = (written < 0) ? errno : 0;
    sigaction(SIGXFSZ, &size, nullptr);
    if ((error == 0) && (static_cast<size_t>(written) != all.size())) {
        error = ENOSPC;
    }
    if ((close(fd) != 0) && (error == 0)) {
        error = errno;
    }
    return error;
}

// Creates a file beside `path`. The node exporter ignores names that do not end
// in ".prom". Returns -1 and sets errno on failure.
int open_new(const char *path, path_name *made)
{
    text_writer to(*made);

    to.add("%s.%d.new", path, getpid());
    if (to.result().empty()) {
        errno = ENAMETOOLONG;
        return -1;
    }
    unlink(made->data()); // left by a dead process with this id
    return open(made->data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

int put_in_place_of(const char *path, std::string_view all)
{
    path_name made;
    const int fd = open_new(path, &made);
    int error    = write_and_close(fd, all);

    if ((error == 0) && (rename(made.data(), path) != 0)) {
        error = errno;
    }
    if ((error != 0) && (fd >= 0)) {
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
        } else if (*++pattern == 'p') {
            to.add("%d", getpid());
        } else if (*pattern == 'h') {
            to.add("%s", host.data());
        } else if (*pattern == '%') {
            to.add("%%");
        } else {
            return "what follows \"%\" is none of \"p\" (the process's "
                   "number), \"h\" (the host's name) and \"%\"";
        }
    }
    return to.result().empty() ? "the file's name is too long" : nullptr;
}

int check_writable(const char *path) noexcept
{
    path_name made;
    struct stat file {};
    const bool exists = stat(path, &file) == 0;

    if (exists && S_ISDIR(file.st_mode)) {
        return EISDIR;
    }
    if (exists && !is_prometheus(path)) {
        return (access(path, W_OK) == 0) ? 0 : errno;
    }
    const int fd    = open_new(path, &made);
    const int error = write_and_close(fd, "");
    if (fd >= 0) {
        unlink(made.data());
    }
    return error;
}

int write_metrics(const char *path) noexcept
{
    // Static, as an ending process may have a small stack.
    static std::array<char, text_max> memory;

    return is_prometheus(path)
               ? put_in_place_of(
                     path,
                     render_prometheus(process_counters, getpid(),
                                       program_invocation_short_name, memory))
               : write_and_close(
                     open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0666),
                     render_json(process_counters, getpid(), memory));
}

} // namespace ucx_ib_dmabuf
