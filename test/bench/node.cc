// SPDX-License-Identifier: BSD-3-Clause
//
// Starts processes together, as a job does on a full node. Each has one GPU of
// eight and eight NICs, opens UCP, and sends a message from GPU memory to
// itself. While all of them are alive, each counts its costs. Prints for each
// figure the largest of all processes:
//   calls         of the GPU's driver, from UCP's start to the message's end
//   cpu           microseconds of a processor meanwhile, the least of all
//   threads, descriptors
//   private       KiB of private memory in use, the median: some processes have
//                 220 more, also with UCX alone
//   page          KiB of the plug-in's page, which other processes may read
//   files         KiB of the plug-in's files in memory, which processes share
//
// libcuda (test/cuda_sim) and libibverbs (fake_verbs.cc) are simulated.
#include "ucp.h"
#include <algorithm>
#include <common/sim.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t length  = 1 << 20; // of the message
constexpr int steps      = 3;       // that all processes begin together
constexpr int first_pipe = 100;     // descriptor

void check(bool good, const char *what)
{
    if (!good) {
        fail(what);
    }
}

struct figures {
    uint64_t calls, cpu_us, threads, descriptors, private_kib, page_kib,
        files_kib;
};

// Sends a message to the process itself. Returns when it has arrived.
void exchange(ucp_worker_h worker, ucp_ep_h ep)
{
    std::vector<char> sent(length, 'x'), got(length);
    CUdeviceptr from = 0, to = 0;
    constexpr ucp_request_param_t usual{};
    GPU_CALL(cuMemAlloc, &from, length);
    GPU_CALL(cuMemAlloc, &to, length);
    GPU_CALL(cuMemcpyHtoD, from, sent.data(), length);
    const ucs_status_ptr_t requests[] = {
        ucp_tag_recv_nbx(worker, reinterpret_cast<void *>(to), length, 1, ~0ul,
                         &usual),
        ucp_tag_send_nbx(ep, reinterpret_cast<void *>(from), length, 1,
                         &usual)};
    for (const ucs_status_ptr_t each : requests) {
        while (UCS_PTR_IS_PTR(each) &&
               ucp_request_check_status(each) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        check(!UCS_PTR_IS_ERR(each), "a message");
    }
    GPU_CALL(cuMemcpyDtoH, got.data(), to, length);
    check(got == sent, "a message's bytes");
}

uint64_t cpu_us()
{
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return uint64_t(used.tv_sec) * 1000000 + uint64_t(used.tv_nsec) / 1000;
}

size_t entries(const char *folder)
{
    size_t count = 0;
    for ([[maybe_unused]] const auto &each :
         std::filesystem::directory_iterator(folder)) {
        ++count;
    }
    return count;
}

void read_memory(figures *out)
{
    std::ifstream maps("/proc/self/smaps");
    std::string file;
    for (std::string line; std::getline(maps, line);) {
        char key[32];
        uint64_t kib = 0;
        if (sscanf(line.c_str(), "%31[A-Za-z_]: %lu kB", key, &kib) != 2) {
            file = line;
        } else if (strcmp(key, "Anonymous") == 0) {
            out->private_kib += kib;
        } else if (strcmp(key, "Rss") == 0) {
            out->page_kib +=
                (file.find("ucx-ib-dmabuf-metrics") != file.npos) ? kib : 0;
            out->files_kib += (file.find("ib_dmabuf") != file.npos) ? kib : 0;
        }
    }
}

// A process of the job. Its pipes end when all have got so far.
[[noreturn]] void run_rank(int rank)
{
    auto wait_for_all = [pipe_end = first_pipe]() mutable {
        char byte = 0;
        check(write(STDOUT_FILENO, &byte, 1) == 1 &&
                  read(pipe_end++, &byte, 1) == 0,
              "the job");
    };
    figures mine{};
    gpu::use(rank % gpu::count());
    wait_for_all();
    const uint64_t calls = SIM_CALL(cuda_sim_calls, nullptr), cpu = cpu_us();
    ucp_start started;
    exchange(started.worker, started.connect());
    mine.calls  = SIM_CALL(cuda_sim_calls, nullptr) - calls;
    mine.cpu_us = cpu_us() - cpu;
    wait_for_all();
    mine.threads     = entries("/proc/self/task");
    mine.descriptors = entries("/proc/self/fd");
    read_memory(&mine);
    wait_for_all();
    check(write(STDOUT_FILENO, &mine, sizeof(mine)) == sizeof(mine),
          "a result");
    exit(0);
}

} // namespace

// usage: node PROCESSES
int main(int argc, char **argv)
{
    alarm(600); // a process may have failed
    if (argc == 3) {
        run_rank(atoi(argv[2]));
    }
    const int count = atoi(argv[1]);
    int go[steps][2], result[2];
    check(pipe2(result, O_CLOEXEC) == 0, "a pipe");
    for (auto &each : go) {
        check(pipe2(each, O_CLOEXEC) == 0, "a pipe");
    }
    for (int rank = 0; rank < count; ++rank) {
        if (fork() == 0) {
            dup2(result[1], STDOUT_FILENO);
            for (int step = 0; step < steps; ++step) {
                dup2(go[step][0], first_pipe + step);
            }
            execl("/proc/self/exe", argv[0], argv[1],
                  std::to_string(rank).c_str(), nullptr);
            _exit(1);
        }
    }
    close(result[1]);
    for (const auto &each : go) {
        for (int rank = 0; rank < count; ++rank) {
            char byte = 0;
            check(read(result[0], &byte, 1) == 1, "a process");
        }
        close(each[1]);
    }
    std::vector<figures> all(size_t(count), figures{});
    for (figures &each : all) {
        check(read(result[0], &each, sizeof(each)) == sizeof(each), "a result");
    }
    while (wait(nullptr) > 0) {
    }
    const auto print = [&](const char *name, uint64_t figures::*which,
                           size_t place) {
        std::ranges::sort(all, {}, which);
        printf("%s %lu\n", name, all[place].*which);
    };
    const size_t last = all.size() - 1;
    print("calls", &figures::calls, last);
    print("cpu", &figures::cpu_us, 0);
    print("threads", &figures::threads, last);
    print("descriptors", &figures::descriptors, last);
    print("private", &figures::private_kib, last / 2);
    print("page", &figures::page_kib, last);
    print("files", &figures::files_kib, last);
    return 0;
}
