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

TEST_F(Context, PrimaryContextIsCounted)
{
    CUcontext a, b;
    unsigned flags;
    int active;
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&a, 1));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&b, 1));
    EXPECT_EQ(a, b);
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(1));
    ASSERT_CUDA(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT_EQ(1, active);
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(1));
    ASSERT_CUDA(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT_EQ(0, active);
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(1));
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

TEST_F(Context, StackIsPerThread)
{
    CUcontext popped, second = gpu::create_context(1);
    CUdevice device;
    ASSERT_CUDA(cuCtxGetDevice(&device));
    EXPECT_EQ(1, device);
    ASSERT_CUDA(cuCtxPopCurrent(&popped));
    EXPECT_EQ(second, popped);
    ASSERT_CUDA(cuCtxGetDevice(&device));
    EXPECT_EQ(0, device);
    ASSERT_CUDA(cuCtxSetCurrent(second));
    ASSERT_CUDA(cuCtxGetDevice(&device));
    EXPECT_EQ(1, device);
    CUdeviceptr address = allocate(512);
    EXPECT_EQ(1, pointer_attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        address));
    ASSERT_CUDA(cuCtxSetCurrent(context));
    ASSERT_CUDA(cuCtxDestroy(second));
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
              cuCtxSetCurrent(reinterpret_cast<CUcontext>(&device)));
}

TEST_F(Context, StreamsAndEvents)
{
    CUstream stream;
    CUevent event;
    ASSERT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr address = allocate(4096);
    char byte           = 0;
    ASSERT_CUDA(cuMemcpyDtoHAsync(&byte, address, 1, stream));
    ASSERT_CUDA(cuEventRecord(event, stream));
    EXPECT_CUDA(cuEventQuery(event));
    int calls       = 0;
    auto call_count = [](CUstream, CUresult, void *argument) {
        ++*static_cast<int *>(argument);
    };
    ASSERT_CUDA(cuStreamAddCallback(stream, call_count, &calls, 0));
    ASSERT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(1, calls);
    ASSERT_CUDA(cuEventDestroy(event));
    ASSERT_CUDA(cuStreamDestroy(stream));
    auto bad = CUDA_ERROR_INVALID_HANDLE;
    EXPECT_EQ(bad, cuEventRecord(event, nullptr));
    EXPECT_EQ(bad, cuStreamSynchronize(stream));
    EXPECT_EQ(bad, cuMemcpyDtoHAsync(&byte, address, 1, stream));
    EXPECT_EQ(bad, cuMemAllocAsync(&address, 512, stream));
}

TEST_F(Context, DevicesHaveNamesAndIdentities)
{
    int count;
    ASSERT_CUDA(cuDeviceGetCount(&count));
    ASSERT_EQ(2, count);
    CUuuid first, second;
    ASSERT_CUDA(cuDeviceGetUuid(&first, 0));
    ASSERT_CUDA(cuDeviceGetUuid(&second, 1));
    EXPECT_NE(0, memcmp(&first, &second, sizeof(first)));
    char bus[16];
    CUdevice device;
    ASSERT_CUDA(cuDeviceGetPCIBusId(bus, sizeof(bus), 1));
    EXPECT_STREQ("0000:c1:00.0", bus);
    size_t total;
    ASSERT_CUDA(cuDeviceTotalMem(&total, 0));
    EXPECT_EQ(80ull << 30, total);
    EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 2));
    int can = 1;
    ASSERT_CUDA(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(0, can);
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

TEST_F(Context, ThreadsWorkAtOnce)
{
    CUcontext shared = context;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([shared, t] {
            ASSERT_CUDA(cuCtxSetCurrent(shared));
            for (int i = 0; i < 300; ++i) {
                CUdeviceptr address;
                size_t size = i % 3 ? 3000 : 2 * MiB;
                ASSERT_CUDA(cuMemAlloc(&address, size));
                char mark = char(t * 50 + i % 50), back = 0;
                ASSERT_CUDA(
                    cuMemsetD8(address, static_cast<unsigned char>(mark), 999));
                ASSERT_NE(0u, buffer_id(address));
                ASSERT_CUDA(cuMemcpyDtoH(&back, address + 998, 1));
                ASSERT_EQ(mark, back);
                ASSERT_CUDA(cuMemFree(address));
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace
} // namespace ucx_ib_dmabuf::test
