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

TEST_F(Memory, SmallAllocationsShareABlock)
{
    CUdeviceptr a = allocate(1), b = allocate(1000);
    EXPECT_EQ(0u, a % 512);
    EXPECT_EQ(0u, b % 512);
    EXPECT_EQ(a / (2 * MiB), b / (2 * MiB));
    CUdeviceptr base;
    size_t size;
    ASSERT_CUDA(cuMemGetAddressRange(&base, &size, b + 999));
    EXPECT_EQ(b, base);
    EXPECT_EQ(1000u, size);
    EXPECT_NE(CUDA_SUCCESS, cuMemGetAddressRange(&base, &size, b + 1000));
}

TEST_F(Memory, LargeAllocationsAreAlignedToBlocks)
{
    cuda_sim_counters_t before, after;
    cuda_sim_counters(&before);
    CUdeviceptr address = allocate(2 * MiB + 1);
    cuda_sim_counters(&after);
    EXPECT_EQ(0u, address % (2 * MiB));
    EXPECT_EQ(4 * MiB, after.device_bytes - before.device_bytes);
}

TEST_F(Memory, AddressFreedLastComesBackFirstWithNewMemory)
{
    CUdeviceptr a = allocate(6 * MiB), b = allocate(6 * MiB);
    if (a > b)
        std::swap(a, b);
    for (CUdeviceptr each : {a, b}) {
        ASSERT_CUDA(cuMemsetD8(each, 0x5a, 6 * MiB));
        ASSERT_CUDA(cuMemFree(each));
    }
    for (CUdeviceptr each : {b, a}) {
        EXPECT_EQ(each, allocate(6 * MiB));
        EXPECT_EQ(std::vector<char>(64), download(each, 64));
    }
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

TEST_F(Memory, HostMemoryIsRegisteredOnce)
{
    std::vector<char> memory(64 * KiB);
    char *at = memory.data();
    ASSERT_CUDA(cuMemHostRegister(at, 32 * KiB, 0));
    EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              cuMemHostRegister(at + 16 * KiB, 32 * KiB, 0));
    EXPECT_EQ(CU_MEMORYTYPE_HOST,
              pointer_attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                          reinterpret_cast<CUdeviceptr>(at)));
    ASSERT_CUDA(cuMemHostUnregister(at));
    EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(at));
}

TEST_F(Memory, CopiesInBatches)
{
    CUstream stream;
    ASSERT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr from = allocate(1024), to = allocate(1024);
    std::vector<char> bytes(1024, 'x');
    ASSERT_EQ(0, cuda_sim_poke(from, bytes.data(), 1024));
    CUdeviceptr destinations[] = {to, to + 512}, sources[] = {from, from + 512};
    size_t sizes[] = {512, 256}, first = 0;
    CUmemcpyAttributes attributes{};
    auto copy = [&](CUstream in) {
        return cuMemcpyBatchAsync_v2(destinations, sources, sizes, 2,
                                     &attributes, &first, 1, in);
    };
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, copy(stream)); // no access order
    memset(&attributes.srcAccessOrder, 1, 1);
    first = 1;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, copy(stream));
    first = 0;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, copy(nullptr));
    ASSERT_CUDA(copy(stream));
    std::fill(bytes.begin() + 768, bytes.end(), 0);
    EXPECT_EQ(bytes, download(to, 1024));
    sizes[1] = 1024;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, copy(stream));
}

TEST_F(Memory, OnlyManagedRangesHaveALocation)
{
    CUdeviceptr managed;
    ASSERT_CUDA(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    int location = 0;
    auto query   = [&](CUdeviceptr address, size_t length, size_t size = 4) {
        return cuMemRangeGetAttribute(&location, size,
                                        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                        address, length);
    };
    EXPECT_CUDA(query(managed, 4096));
    EXPECT_EQ(int(CU_DEVICE_INVALID), location);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, query(managed, 4096, 8));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, query(managed, 4097));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, query(allocate(512), 512));
    EXPECT_CUDA(cuMemFree(managed));
}

// Allocations never overlap, in any order; the seed is printed.
TEST_F(Memory, RandomAllocationsKeepTheirBytes)
{
    unsigned seed = std::random_device()();
    printf("seed %u\n", seed);
    std::mt19937 random(seed);
    struct One {
        CUdeviceptr address;
        size_t size;
        unsigned char mark;
    };
    std::vector<One> all;
    for (unsigned i = 0; i < 2000; ++i) {
        if (all.size() > 100 || (!all.empty() && random() % 3 == 0)) {
            size_t which = random() % all.size();
            One one      = all[which];
            auto bytes   = download(one.address, one.size);
            ASSERT_EQ(std::vector<char>(one.size, char(one.mark)), bytes);
            ASSERT_CUDA(cuMemFree(one.address));
            all.erase(all.begin() + ptrdiff_t(which));
        } else {
            size_t size =
                random() % 8 ? 1 + random() % 5000 : 1 + random() % (5 * MiB);
            One one{allocate(size), size, static_cast<unsigned char>(i)};
            ASSERT_CUDA(cuMemsetD8(one.address, one.mark, size));
            all.push_back(one);
        }
    }
}

} // namespace
} // namespace ucx_ib_dmabuf::test
