// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts, streams, events; calls that need a context and calls that do not.
#include "gpu.h"

#include <thread>

namespace ucx_ib_dmabuf::test {
namespace {

using Context = Gpu;

TEST_F(Context, MemoryGoesWithItsContext)
{
    CUcontext other   = gpu::create_context(0);
    CUdeviceptr small = allocate(100), large = allocate(4 * MiB);
    void *pinned;
    ASSERT_CUDA(cuMemAllocHost(&pinned, 4096));
    ASSERT_CUDA(cuCtxDestroy(other));
    unsigned type;
    auto which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    EXPECT_EQ(gone_result(), cuPointerGetAttribute(&type, which, small));
    EXPECT_EQ(gone_result(), cuPointerGetAttribute(&type, which, large));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
              cuPointerGetAttribute(&type, which,
                                    reinterpret_cast<CUdeviceptr>(pinned)));
    CUcontext current;
    ASSERT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(context, current);
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy(other));
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxPushCurrent(other));
    // Its addresses can be reused.
    EXPECT_EQ(large, allocate(4 * MiB));
    ASSERT_CUDA(cuMemFree(large));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
              cuPointerGetAttribute(&type, which, large));
}

TEST_F(Context, ResetTakesThePrimaryContextsMemoryAndThePools)
{
    CUcontext primary;
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&primary, 0));
    ASSERT_CUDA(cuCtxPushCurrent(primary));
    CUdeviceptr a = allocate(4 * MiB), b;
    ASSERT_CUDA(cuMemAllocAsync(&b, 4096, nullptr));
    ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
    unsigned type;
    auto which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    EXPECT_EQ(gone_result(), cuPointerGetAttribute(&type, which, a));
    EXPECT_EQ(gone_result(), cuPointerGetAttribute(&type, which, b));
    unsigned flags;
    int active;
    ASSERT_CUDA(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(0, active);
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&a, 512));
    ASSERT_CUDA(cuCtxPopCurrent(&primary));
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(0));
}

TEST_F(Context, AddressRangesNeedOneOfTheirGpu)
{
    const bool need     = played("CUDA_SIM_NEEDS_CONTEXT", "y") == "y";
    CUdeviceptr address = allocate(2 * MiB), base;
    CUcontext other;
    size_t size;
    int fd = -1;
    EXPECT_CUDA(cuMemGetAddressRange(&base, &size, address));
    std::thread([&] {
        auto none = need ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
        EXPECT_EQ(none, cuMemGetAddressRange(&base, &size, address));
        EXPECT_EQ(none, export_range(&fd, address, MiB));
        close(fd);
        other = gpu::create_context(1);
        EXPECT_EQ(need ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS,
                  cuMemGetAddressRange(&base, &size, address));
        EXPECT_EQ(need ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS,
                  export_range(&fd, address, MiB));
        close(fd);
        ASSERT_CUDA(cuCtxDestroy(other));
    }).join();
}

TEST_F(Context, OpenedMemoryIsTheSame)
{
    constexpr auto lazily = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
    CUdeviceptr address   = allocate(2 * MiB), other;
    CUipcMemHandle handle;
    int fd;
    ASSERT_CUDA(cuIpcGetMemHandle(&handle, address));
    ASSERT_CUDA(cuIpcOpenMemHandle(&other, handle, lazily));
    ASSERT_CUDA(cuMemsetD8(address, 'o', 2 * MiB));
    EXPECT_EQ('o', download(other + MiB, 1)[0]);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, other, 2 * MiB));
    ASSERT_CUDA(cuIpcCloseMemHandle(other));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(other));
    ++handle.reserved[0]; // as if from another process
    EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
              cuIpcOpenMemHandle(&other, handle, lazily));
}

} // namespace
} // namespace ucx_ib_dmabuf::test
