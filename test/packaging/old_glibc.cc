/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Linked as the plug-in is with --with-glibc, it calls src/glibc/newer.c in
 * place of glibc. Preload it: its constructor prints whether each function
 * works.
 */
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <fcntl.h>

extern "C" {
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
int __isoc23_sscanf(const char *text, const char *format, ...);
}

namespace {

void expect(const char *what, bool is)
{
    std::printf("%s - %s\n", is ? "ok" : "not ok", what);
}

__attribute__((noinline)) void throws(int depth)
{
    if (depth == 0) {
        throw std::runtime_error("thrown");
    }
    std::string unwound(static_cast<size_t>(depth) * 40, '-');
    throws(depth - 1);
    std::puts(unwound.c_str());
}

bool caught()
{
    try {
        throws(3);
    } catch (const std::exception &error) {
        return error.what() == std::string("thrown");
    }
    return false;
}

bool is_null_device(const struct stat &found)
{
    return S_ISCHR(found.st_mode) && (found.st_rdev == 0x103);
}

__attribute__((constructor)) void look()
{
    struct stat by_name = {}, by_fd = {}, link = {};
    bool in_thread = false;
    int fd         = open("/dev/null", O_RDONLY | O_CLOEXEC);

    expect("an exception is caught", caught());
    std::thread([&] { in_thread = caught(); }).join();
    expect("in a thread, too", in_thread);
    expect("stat",
           (stat("/dev/null", &by_name) == 0) && is_null_device(by_name));
    expect("fstat", (fstat(fd, &by_fd) == 0) && is_null_device(by_fd));
    expect("lstat",
           (lstat("/proc/self/exe", &link) == 0) && S_ISLNK(link.st_mode));
    unsigned long long number = 0;
    int major                 = 0;
    expect("strtoull",
           __isoc23_strtoull("0xffffffffffffffff", nullptr, 16) == UINT64_MAX);
    expect("sscanf",
           (__isoc23_sscanf("7.2", "%d.%llu", &major, &number) == 2) &&
               (major == 7) && (number == 2));
    close(fd);
    std::fflush(stdout);
}

} // namespace
