// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.h"

#include <csetjmp>
#include <csignal>
#include <random>

namespace ucx_ib_dmabuf::test {
namespace {

using Memory = Gpu;

sigjmp_buf crash_point;

void on_crash(int)
{
    siglongjmp(crash_point, 1);
}

bool cpu_read_crashes(CUdeviceptr address)
{
    struct sigaction action {
    }, old_segv, old_bus;
    action.sa_handler = on_crash;
    action.sa_flags   = SA_NODEFER;
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
    bool crashed = sigsetjmp(crash_point, 1) != 0;
    if (!crashed)
        (void)*reinterpret_cast<volatile char *>(address);
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
    return crashed;
}

TEST_F(Memory, CpuCannotReachDeviceMemory)
{
    CUdeviceptr address = allocate(MiB);
    ASSERT_CUDA(cuMemsetD8(address, 1, MiB));
    EXPECT_TRUE(cpu_read_crashes(address));
}

TEST_F(Memory, CopiesThereAndBack)
{
    // Larger than one mapping of the memory file.
    size_t size         = (1ull << 30) + 4 * MiB;
    CUdeviceptr address = allocate(size);
    std::vector<char> out(8 * MiB), back(8 * MiB);
    std::mt19937 random(7);
    for (char &byte : out)
        byte = char(random());
    CUdeviceptr at = address + size - 8 * MiB;
    ASSERT_CUDA(cuMemcpyHtoD(at, out.data(), out.size()));
    ASSERT_CUDA(cuMemcpyDtoD(address, at, out.size()));
    ASSERT_CUDA(cuMemcpyDtoH(back.data(), address, back.size()));
    EXPECT_EQ(out, back);
}

TEST_F(Memory, CountsCopiedBytesByDirection)
{
    CUdeviceptr a = allocate(4096), b = allocate(4096);
    char host[4096] = {};
    cuda_sim_counters_t before, after;
    cuda_sim_counters(&before);
    ASSERT_CUDA(cuMemcpyHtoD(a, host, 100));
    ASSERT_CUDA(cuMemcpyDtoH(host, a, 30));
    ASSERT_CUDA(cuMemcpyDtoD(b, a, 7));
    ASSERT_CUDA(cuMemcpyAsync(b, reinterpret_cast<CUdeviceptr>(host), 11, 0));
    ASSERT_CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(host),
                         reinterpret_cast<CUdeviceptr>(host + 8), 5));
    ASSERT_CUDA(cuMemsetD8(a, 3, 13));
    EXPECT_NE(CUDA_SUCCESS, cuMemcpyHtoD(a, host, 8192));
    cuda_sim_counters(&after);
    EXPECT_EQ(111u, after.h2d_bytes - before.h2d_bytes);
    EXPECT_EQ(30u, after.d2h_bytes - before.d2h_bytes);
    EXPECT_EQ(7u, after.d2d_bytes - before.d2d_bytes);
    EXPECT_EQ(5u, after.h2h_bytes - before.h2h_bytes);
    EXPECT_EQ(13u, after.memset_bytes - before.memset_bytes);
}

TEST_F(Memory, RefusesWrongFrees)
{
    CUdeviceptr address = allocate(4 * MiB);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFree(address + 512));
    ASSERT_CUDA(cuMemFree(address));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFree(address));
    char host;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
              cuMemFree(reinterpret_cast<CUdeviceptr>(&host)));
}

TEST_F(Memory, RunsOut)
{
    size_t free_bytes, total;
    ASSERT_CUDA(cuMemGetInfo(&free_bytes, &total));
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, free_bytes + 1));
    // No page of it exists, as nothing has been written.
    ASSERT_CUDA(cuMemAlloc(&address, free_bytes));
    size_t left;
    ASSERT_CUDA(cuMemGetInfo(&left, &total));
    EXPECT_EQ(0u, left);
    ASSERT_CUDA(cuMemFree(address));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&address, 0));
}

TEST_F(Memory, CopiesDoNotLeaveAnAllocation)
{
    CUdeviceptr a = allocate(1024), b = allocate(1024);
    std::vector<char> host(4096);
    (void)b;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a, host.data(), 1025));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
              cuMemcpyDtoH(host.data(), a + 1000, 25));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(a, 0, 1025));
    // Host memory in place of device memory.
    auto wrong = reinterpret_cast<CUdeviceptr>(host.data());
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(a, wrong, 16));
}

} // namespace
} // namespace ucx_ib_dmabuf::test
