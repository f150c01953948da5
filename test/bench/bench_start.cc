// SPDX-License-Identifier: BSD-3-Clause
//
// Counts what the start of UCP takes in a large program: calls of the driver
// and of the loader, calls of the kernel that protect memory or have no wrapper
// in libc, readings of /proc/self/maps, threads. test/bench/run runs it with
// UCX alone and with the plug-in.
#include "ucp.h"
#include <atomic>
#include <common/gpu.h>
#include <common/sim.h>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <iterator>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<uint64_t> opened, maps_read, protected_, kernel, barriers;

template <class Function>
Function *next(Function *, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

// In place of libc's, for the libraries.
extern "C" void *dlopen(const char *path, int mode)
{
    ++opened;
    return next(&dlopen, "dlopen")(path, mode);
}
extern "C" FILE *fopen(const char *path, const char *mode)
{
    maps_read += strcmp(path, "/proc/self/maps") == 0;
    return next(&fopen, "fopen")(path, mode);
}
extern "C" int mprotect(void *at, size_t length, int protection) noexcept
{
    ++protected_;
    return next(&mprotect, "mprotect")(at, length, protection);
}
extern "C" long syscall(long number, ...) noexcept
{
    long all[6];
    va_list args;
    va_start(args, number);
    for (long &each : all) {
        each = va_arg(args, long);
    }
    va_end(args);
    ++kernel;
    barriers += number == SYS_membarrier;
    return next(&syscall, "syscall")(number, all[0], all[1], all[2], all[3],
                                     all[4], all[5]);
}

namespace {

// Neighbours with different rights stay separate mappings.
void map(size_t count)
{
    constexpr size_t page = 4096;
    auto *all             = static_cast<char *>(
        mmap(nullptr, count * page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t i = 0; i < count; i += 2) {
        if (mprotect(all + i * page, page, PROT_READ) != 0) {
            fail("mprotect");
        }
    }
}

size_t threads()
{
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
}

} // namespace

// usage: bench_start NAME [gpu [MAPPINGS]]: with a GPU in use, or none
int main(int argc, char **argv)
{
    const std::string name = (argc > 1) ? argv[1] : "start";
    load_libraries(150);
    map((argc > 3) ? std::stoul(argv[3]) : 2000);
    if (argc > 2) {
        gpu::use();
    }
    const uint64_t calls = SIM_CALL(cuda_sim_calls, nullptr);
    opened = protected_ = kernel = 0;
    const ucp_start started;
    printf("%s/driver_calls %lu\n", name.c_str(),
           SIM_CALL(cuda_sim_calls, nullptr) - calls);
    printf("%s/dlopen_calls %lu\n", name.c_str(), opened.load());
    printf("%s/maps_read %lu\n", name.c_str(), maps_read.load());
    printf("%s/mprotect_calls %lu\n", name.c_str(), protected_.load());
    printf("%s/syscall_calls %lu\n", name.c_str(), kernel.load());
    printf("%s/membarriers %lu\n", name.c_str(), barriers.load());
    printf("%s/threads %zu\n", name.c_str(), threads());
    return 0;
}
