// SPDX-License-Identifier: BSD-3-Clause
//
// Stream-ordered memory.
#include "gpu.h"

namespace ucx_ib_dmabuf::test {
namespace {

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

    static cuuint64_t number(CUmemoryPool pool, CUmemPool_attribute which)
    {
        cuuint64_t value = 0;
        EXPECT_CUDA(cuMemPoolGetAttribute(pool, which, &value));
        return value;
    }

    CUmemoryPool standard = nullptr;
};

TEST_F(Pool, MemoryKnowsItsPoolAndNoContext)
{
    CUdeviceptr a = allocate_async(1000);
    EXPECT_EQ(standard, pointer_attribute<CUmemoryPool>(
                            CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    EXPECT_EQ(nullptr,
              pointer_attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, a));
    EXPECT_EQ(CU_MEMORYTYPE_DEVICE,
              pointer_attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, nullptr));
}

TEST_F(Pool, FreedMemoryIsReusedAsItIs)
{
    CUdeviceptr a = allocate_async(4 * MiB);
    auto id       = buffer_id(a);
    ASSERT_CUDA(cuMemsetD8(a, 'p', 4 * MiB));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
    CUdeviceptr b = allocate_async(4 * MiB);
    EXPECT_EQ(a, b);
    EXPECT_NE(id, buffer_id(b));
    EXPECT_EQ('p', download(b, 1)[0]);
    ASSERT_CUDA(cuMemFreeAsync(b, nullptr));
}

TEST_F(Pool, WaitingReleasesWhatIsBeyondTheThreshold)
{
    CUmemoryPool pool = create();
    CUdeviceptr a;
    ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 4 * MiB, pool, nullptr));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
    EXPECT_NE(0u, number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_EQ(0u, number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    ASSERT_CUDA(cuStreamSynchronize(nullptr));
    EXPECT_EQ(0u, number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));

    cuuint64_t threshold = UINT64_MAX;
    ASSERT_CUDA(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                      &threshold));
    ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 4 * MiB, pool, nullptr));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
    ASSERT_CUDA(cuStreamSynchronize(nullptr));
    EXPECT_NE(0u, number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    ASSERT_CUDA(cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(0u, number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    ASSERT_CUDA(cuMemPoolDestroy(pool));
}

TEST_F(Pool, GoesWithItsMemory)
{
    CUmemoryPool pool = create();
    CUdeviceptr a;
    ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 4096, pool, nullptr));
    ASSERT_CUDA(cuMemPoolDestroy(pool));
    unsigned type;
    EXPECT_EQ(
        CUDA_ERROR_INVALID_VALUE,
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
}

TEST_F(Pool, CurrentPoolOfADeviceCanBeSet)
{
    CUmemoryPool pool = create(), now;
    ASSERT_CUDA(cuDeviceSetMemPool(0, pool));
    ASSERT_CUDA(cuDeviceGetMemPool(&now, 0));
    EXPECT_EQ(pool, now);
    CUdeviceptr a = allocate_async(512);
    EXPECT_EQ(pool, pointer_attribute<CUmemoryPool>(
                        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(1, pool));
    ASSERT_CUDA(cuMemPoolDestroy(pool));
    ASSERT_CUDA(cuDeviceGetMemPool(&now, 0));
    EXPECT_EQ(standard, now);
}

TEST_F(Pool, FreesMayBeMixedOneWay)
{
    CUdeviceptr a = allocate_async(512), b = allocate(512);
    EXPECT_CUDA(cuMemFree(a));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(b, nullptr));
}

TEST_F(Pool, MemoryOutlivesAContext)
{
    CUcontext other;
    other         = gpu::create_context(0);
    CUdeviceptr a = allocate_async(4096);
    ASSERT_CUDA(cuCtxDestroy(other));
    EXPECT_NE(0u, buffer_id(a));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
}

TEST_F(Pool, CanBeExportedUnlessSetOtherwise)
{
    CUdeviceptr a = allocate_async(2 * MiB);
    int fd;
    ASSERT_CUDA(export_range(&fd, a / 4096 * 4096, 4096));
    close(fd);
    EXPECT_EQ(0u, pointer_attribute<unsigned>(
                      CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, a));
    ASSERT_CUDA(cuMemFreeAsync(a, nullptr));
}

TEST_F(Pool, DISABLED_NoExport)
{
    CUdeviceptr a = allocate_async(2 * MiB);
    int fd;
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              export_range(&fd, a / 4096 * 4096, 4096));
}

TEST(PoolSettings, NoExport)
{
    EXPECT_EQ(0, run_alone("CUDA_SIM_POOL_EXPORT=n", "Pool.DISABLED_NoExport"));
}

} // namespace
} // namespace ucx_ib_dmabuf::test
