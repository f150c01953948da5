// SPDX-License-Identifier: BSD-3-Clause
//
// Ordinary and stream-ordered memory, and copies.
#include "gpu.h"

namespace ucx_ib_dmabuf::test {
namespace {

using Memory = Gpu;

TEST_F(Memory, CpuCannotReachDeviceMemory)
{
    CUdeviceptr address = allocate(MiB);
    ASSERT_CUDA(cuMemsetD8(address, 1, MiB));
    EXPECT_DEATH((void)*reinterpret_cast<volatile char *>(address), "");
}

TEST_F(Memory, CountsBytesThatAreCopied)
{
    CUdeviceptr a = allocate(4096), b = allocate(4096);
    char host[4096]       = {};
    const auto at         = reinterpret_cast<CUdeviceptr>(host);
    const uint64_t before = gpu::copied_bytes();
    ASSERT_CUDA(cuMemcpyHtoD(a, host, 100));
    ASSERT_CUDA(cuMemcpyDtoH(host, a, 30));
    ASSERT_CUDA(cuMemcpyDtoD(b, a, 7));
    ASSERT_CUDA(cuMemcpyAsync(b, at, 11, 0));
    ASSERT_CUDA(cuMemcpy(at, at + 8, 5)); // no device memory
    EXPECT_NE(CUDA_SUCCESS, cuMemcpyHtoD(a, host, 8192));
    EXPECT_EQ(148u, gpu::copied_bytes() - before);
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

class Pool : public Gpu {
protected:
    void SetUp() override
    {
        Gpu::SetUp();
        ASSERT_CUDA(cuDeviceGetDefaultMemPool(&standard, 0));
    }

    static CUdeviceptr allocate_async(size_t size)
    {
        CUdeviceptr address = 0;
        EXPECT_CUDA(cuMemAllocAsync(&address, size, nullptr));
        return address;
    }

    static CUmemoryPool create(int device = 0)
    {
        CUmemPoolProps p{};
        p.allocType       = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.location.type   = CU_MEM_LOCATION_TYPE_DEVICE;
        p.location.id     = device;
        CUmemoryPool pool = nullptr;
        EXPECT_CUDA(cuMemPoolCreate(&pool, &p));
        return pool;
    }

    CUmemoryPool standard = nullptr;
};

TEST_F(Pool, FreedMemoryStaysUntilAProgramWaitsOrTrims)
{
    CUmemoryPool pool = create();
    ASSERT_CUDA(cuStreamSynchronize(nullptr));
    const size_t before = free_bytes();
    for (bool trims : {false, true}) {
        CUdeviceptr a;
        ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 4 * MiB, pool, nullptr));
        ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, nullptr));
        EXPECT_GT(before, free_bytes());
        ASSERT_CUDA(trims ? cuMemPoolTrimTo(pool, 0)
                          : cuStreamSynchronize(nullptr));
        EXPECT_EQ(before, free_bytes());
    }
    ASSERT_CUDA(cuMemPoolDestroy(pool));
}

TEST_F(Pool, GoesWithItsMemory)
{
    CUmemoryPool pool = create();
    CUdeviceptr a;
    ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 4096, pool, nullptr));
    ASSERT_CUDA(cuMemPoolDestroy(pool));
    EXPECT_FALSE(is_memory(a));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
}

TEST_F(Pool, FreesMayBeMixedOneWay)
{
    CUdeviceptr a = allocate_async(512), b = allocate(512);
    EXPECT_CUDA(cuMemFree(a));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(b, nullptr));
}

TEST_F(Pool, MemoryOutlivesAContext)
{
    CUcontext other = gpu::create_context(0);
    CUdeviceptr a   = allocate_async(4096);
    ASSERT_CUDA(cuCtxDestroy(other));
    EXPECT_NE(0u, buffer_id(a));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
}

TEST_F(Pool, IsExportedFromWhereAChunkBegins)
{
    CUdeviceptr first = allocate_async(2 * MiB), a = allocate_async(63 * MiB);
    int fd;
    for (CUdeviceptr at : {first, a, a + 32 * MiB}) {
        const auto chunk = pointer_attribute<CUdeviceptr>(
            CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at);
        ASSERT_LE(chunk, at);
        ASSERT_CUDA(export_range(&fd, chunk, at + 4096 - chunk));
        close(fd);
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
                  export_range(&fd, chunk + 4096, 4096));
    }
    ASSERT_CUDA(export_range(&fd, a + 4096, 32 * MiB));
    close(fd);
    ASSERT_CUDA(cuMemFreeAsync(first, nullptr));
    EXPECT_EQ(0u, pointer_attribute<unsigned>(
                      CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, a));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
}

TEST_ALONE(Pool, NoExport, "CUDA_SIM_POOL_EXPORT=n")
{
    CUdeviceptr a = allocate_async(2 * MiB);
    int fd;
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              export_range(&fd, a / 4096 * 4096, 4096));
}

} // namespace
} // namespace ucx_ib_dmabuf::test
