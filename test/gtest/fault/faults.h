// SPDX-License-Identifier: BSD-3-Clause
//
// GPU memory that the CPU runs into. Each case is a process of its own, which
// mostly dies of it.
#ifndef TEST_GTEST_FAULT_FAULTS_H_
#define TEST_GTEST_FAULT_FAULTS_H_

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <uct/ib_dmabuf/fault/handler.h>
#include <unistd.h>

extern "C" int MPI_Allreduce(void *buffer);

namespace ucx_ib_dmabuf {

constexpr size_t page = 4096;

inline uint8_t *gpu;  // a page that is taken for a GPU's
inline uint8_t *host; // one that is not

inline bool is_gpu(uintptr_t address) noexcept
{
    return address - reinterpret_cast<uintptr_t>(gpu) < page;
}

struct end {
    int status; // of waitpid()
    std::string said;

    bool died_of(int signal) const
    {
        return WIFSIGNALED(status) && (WTERMSIG(status) == signal);
    }
    bool exited_with(int code) const
    {
        return WIFEXITED(status) && (WEXITSTATUS(status) == code);
    }
    bool named(const std::string &what) const
    {
        return said.find(what) != std::string::npos;
    }
};

// Runs it in a child, in which status 0 is the end of it.
template <class Scenario>
end in_child(Scenario run)
{
    int ends[2];
    end result{};
    char bytes[512];

    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;) {
        result.said.append(bytes, static_cast<size_t>(n));
    }
    close(ends[0]);
    waitpid(child, &result.status, 0);
    return result;
}

inline sigjmp_buf recovered;
inline volatile int codes; // si_code of the last signal
inline void *volatile addresses;
inline uint8_t *volatile stacks;

inline void recover(int, siginfo_t *info, void *)
{
    uint8_t here;

    codes     = info->si_code;
    addresses = info->si_addr;
    stacks    = &here;
    siglongjmp(recovered, 1);
}

inline void handle(void (*handler)(int, siginfo_t *, void *), int flags = 0)
{
    struct sigaction action {};

    action.sa_sigaction = handler;
    action.sa_flags     = SA_SIGINFO | flags;
    sigaddset(&action.sa_mask, SIGUSR1);
    ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}

// What remains of a line that ours prints.
inline std::string line_for(const uint8_t *address)
{
    char text[64];

    snprintf(text, sizeof(text), "MPI_Allreduce touched GPU memory at %p ",
             static_cast<const void *>(address));
    return text;
}

inline size_t lines(const std::string &said)
{
    return static_cast<size_t>(std::count(said.begin(), said.end(), '\n'));
}

class test_fault : public testing::Test {
public:
    static void SetUpTestSuite()
    {
        const int access = PROT_NONE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
        gpu  = static_cast<uint8_t *>(mmap(nullptr, page, access, kind, -1, 0));
        host = static_cast<uint8_t *>(mmap(nullptr, page, access, kind, -1, 0));
    }
};

} // namespace ucx_ib_dmabuf

#endif
