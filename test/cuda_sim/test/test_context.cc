// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts, and calls that need one; the results of calls while a stream
// captures, and while a kernel runs.
#include "gpu.h"

#include <atomic>
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
    for (CUdeviceptr gone :
         {small, large, reinterpret_cast<CUdeviceptr>(pinned)})
        EXPECT_FALSE(is_memory(gone));
    CUcontext current;
    ASSERT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(context, current);
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy(other));
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxPushCurrent(other));
    // Its addresses can be reused.
    EXPECT_EQ(large, allocate(4 * MiB));
    ASSERT_CUDA(cuMemFree(large));
    EXPECT_FALSE(is_memory(large));
}

TEST_F(Context, ResetTakesThePrimaryContextsMemoryAndThePools)
{
    CUcontext primary;
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&primary, 0));
    ASSERT_CUDA(cuCtxPushCurrent(primary));
    CUdeviceptr a = allocate(4 * MiB), b;
    ASSERT_CUDA(cuMemAllocAsync(&b, 4096, nullptr));
    ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
    EXPECT_FALSE(is_memory(a));
    EXPECT_FALSE(is_memory(b));
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
    constexpr auto none = CUDA_ERROR_INVALID_CONTEXT;
    CUdeviceptr address = allocate(2 * MiB), base;
    size_t size;
    int fd;
    EXPECT_CUDA(cuMemGetAddressRange(&base, &size, address));
    std::thread([&] {
        EXPECT_EQ(none, cuMemGetAddressRange(&base, &size, address));
        EXPECT_EQ(none, export_range(&fd, address, MiB));
        CUcontext other = gpu::create_context(1);
        EXPECT_EQ(CUDA_ERROR_NOT_FOUND,
                  cuMemGetAddressRange(&base, &size, address));
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, address, MiB));
        ASSERT_CUDA(cuCtxDestroy(other));
    }).join();
}

TEST_F(Context, OpensOnlyItsOwnProcesssMemory)
{
    constexpr auto lazily = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
    CUdeviceptr address   = allocate(2 * MiB), other;
    CUipcMemHandle handle;
    ASSERT_CUDA(cuIpcGetMemHandle(&handle, address));
    ASSERT_CUDA(cuIpcOpenMemHandle(&other, handle, lazily));
    ASSERT_CUDA(cuMemsetD8(address, 'o', 2 * MiB));
    EXPECT_EQ('o', download(other + MiB, 1)[0]);
    ASSERT_CUDA(cuIpcCloseMemHandle(other));
    ++handle.reserved[0]; // as if from another process
    EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
              cuIpcOpenMemHandle(&other, handle, lazily));
}

class Capture : public Gpu {
protected:
    void SetUp() override
    {
        Gpu::SetUp();
        address = allocate(MiB);
    }

    void begin(CUstreamCaptureMode mode,
               unsigned flags = CU_STREAM_NON_BLOCKING)
    {
        EXPECT_CUDA(cuStreamCreate(&stream, flags));
        EXPECT_CUDA(cuStreamBeginCapture(stream, mode));
    }

    CUresult end()
    {
        CUgraph graph   = nullptr;
        CUresult result = cuStreamEndCapture(stream, &graph);
        EXPECT_EQ(result == CUDA_SUCCESS, graph != nullptr);
        if (graph) {
            EXPECT_CUDA(cuGraphDestroy(graph));
        }
        EXPECT_CUDA(cuStreamDestroy(stream));
        return result;
    }

    // The result of a copy in this thread, or in another one.
    CUresult copy()
    {
        char byte;
        return cuMemcpyDtoH(&byte, address, 1);
    }
    CUresult copy_elsewhere()
    {
        CUresult result = CUDA_SUCCESS;
        std::thread([&] {
            EXPECT_CUDA(cuCtxSetCurrent(context));
            result = copy();
        }).join();
        return result;
    }

    CUdeviceptr address = 0;
    CUstream stream     = nullptr;
};

TEST_F(Capture, ModesForbidUnsafeCallsHereOrElsewhere)
{
    constexpr auto refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const struct {
        CUstreamCaptureMode mode;
        CUresult here, elsewhere;
    } all[] = {{CU_STREAM_CAPTURE_MODE_GLOBAL, refused, refused},
               {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, refused, CUDA_SUCCESS},
               {CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS}};
    for (auto [mode, here, elsewhere] : all) {
        for (bool is_here : {true, false}) {
            const CUresult expected = is_here ? here : elsewhere;
            begin(mode);
            EXPECT_EQ(expected, is_here ? copy() : copy_elsewhere()) << mode;
            EXPECT_EQ(expected == refused
                          ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : CUDA_SUCCESS,
                      end());
        }
    }
}

TEST_F(Capture, LegacyStreamDisturbsABlockingOneInAnyMode)
{
    begin(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_DEFAULT);
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, copy());
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end());
}

TEST_F(Capture, CapturedWorkIsNotDone)
{
    char byte = 'x';
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_CUDA(cuStreamIsCapturing(stream, &status));
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    EXPECT_CUDA(cuMemcpyDtoHAsync(&byte, address, 1, stream));
    EXPECT_EQ('x', byte);
    EXPECT_EQ(CUDA_SUCCESS, end());
}

TEST_F(Capture, QueriesAreUnsafe)
{
    unsigned long long id;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end());
}

TEST_F(Capture, AKernelHoldsUpTheLegacyStream)
{
    std::atomic<bool> copied{false};
    cuda_sim_kernel_start();
    std::thread waiting([&] {
        EXPECT_EQ(CUDA_SUCCESS, copy_elsewhere());
        copied = true;
    });
    while (cuda_sim_kernel_waiters() == 0)
        std::this_thread::yield();
    EXPECT_FALSE(copied);
    cuda_sim_kernel_stop();
    waiting.join();
    EXPECT_EQ(0u, cuda_sim_kernel_waiters());
}

} // namespace
} // namespace ucx_ib_dmabuf::test
