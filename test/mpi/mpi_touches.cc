// SPDX-License-Identifier: BSD-3-Clause
//
// Finds the MPI calls that touch GPU memory with the CPU. Each call is made
// with memory of the simulated GPU, which the CPU may not access. A fault
// handler allows the access, and notes the library that made it. It needs a UCX
// that copies everything, without the plug-in. UCX copies by other means if it
// has a transport for that. Rank 0 prints, for each call,
//   NAME: mpi|ucx|none
// With an argument it makes one MPI_Allreduce, and handles no fault.
// usage: mpi_touches [reduce]
#include "buffer.h"
#include "touches.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t room      = 4 << 20; // bytes of a buffer
constexpr size_t page_size = 4096;

enum toucher { none, ucx, mpi };

struct {
    uint8_t *begin[2] = {};
    toucher found     = none;
} touched;

bool is_in(const char *path, std::initializer_list<const char *> names)
{
    const char *slash = std::strrchr(path, '/');
    const char *file  = slash ? slash + 1 : path;

    for (const char *name : names) {
        if (std::strncmp(file, name, std::strlen(name)) == 0) {
            return true;
        }
    }
    return false;
}

// Returns the library at fault, memcpy()s and preloaded libraries aside.
toucher who()
{
    void *frames[32];
    const int count = backtrace(frames, 32);

    for (int i = 2; i < count; ++i) { // skips this function and the handler
        Dl_info info;
        if (!dladdr(frames[i], &info) || !info.dli_fname ||
            is_in(info.dli_fname, {"libc.", "libibverbs.", "librxe"})) {
            continue;
        }
        return is_in(info.dli_fname, {"libucp.", "libuct", "libucs."}) ? ucx
                                                                       : mpi;
    }
    return mpi;
}

void allow(uint8_t *begin, size_t length, int access)
{
    if (mprotect(begin, length, access) != 0) {
        std::perror("mprotect");
        _exit(1);
    }
}

void on_fault(int, siginfo_t *info, void *)
{
    auto *at = static_cast<uint8_t *>(info->si_addr);

    for (uint8_t *begin : touched.begin) {
        if ((at < begin) || (at >= begin + room)) {
            continue;
        }
        if (who() == mpi) {
            touched.found = mpi;
            allow(begin, room, PROT_READ | PROT_WRITE); // the result is final
        } else {
            touched.found = std::max(touched.found, ucx);
            allow(begin + (at - begin) / static_cast<ptrdiff_t>(page_size) *
                              static_cast<ptrdiff_t>(page_size),
                  page_size, PROT_READ | PROT_WRITE);
        }
        return;
    }
    std::signal(SIGSEGV, SIG_DFL); // a real crash
}

// Uses small and large counts, as algorithms differ.
void look_at(const mpi_operation &one, arguments with)
{
    int found = none, all = none;

    touched.found = none;
    for (int count : {64, 1 << 16}) {
        with.count = count;
        MPI_Barrier(MPI_COMM_WORLD);
        one.run(with);
        MPI_Barrier(MPI_COMM_WORLD);
        for (uint8_t *begin : touched.begin) {
            allow(begin, room, PROT_NONE);
        }
    }
    found = touched.found;
    MPI_Reduce(&found, &all, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (with.rank == 0) {
        const char *names[] = {"none", "ucx", "mpi"};
        std::printf("%s: %s\n", one.name.c_str(), names[all]);
        std::fflush(stdout);
    }
}

void handle_faults()
{
    struct sigaction action = {};
    void *frame             = nullptr;

    backtrace(&frame, 1); // loads the library that it needs
    action.sa_sigaction = on_fault;
    action.sa_flags     = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
}

void reduce()
{
    buffer memory(memory::device, page_size);
    int sum = 0;

    MPI_Allreduce(memory.at(), &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    arguments with{};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &with.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &with.size);
    gpu::use(0);
    if (argc > 1) {
        reduce();
    } else {
        buffer from(memory::device, room), to(memory::device, room);
        touched.begin[0] = from.at();
        touched.begin[1] = to.at();
        with.from        = reinterpret_cast<int *>(from.at());
        with.to          = reinterpret_cast<int *>(to.at());
        handle_faults();
        for (const auto &group :
             {point_to_point(), collectives(), local_operations()}) {
            for (const mpi_operation &one : group) {
                look_at(one, with);
            }
        }
    }
    MPI_Finalize();
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    return ucx_ib_dmabuf::test::main(argc, argv);
}
