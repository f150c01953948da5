// SPDX-License-Identifier: BSD-3-Clause
//
// The results of calls while a stream captures, and while a kernel runs.
#include "gpu.h"

#include <atomic>
#include <thread>

namespace ucx_ib_dmabuf::test {
namespace {

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

TEST_F(Capture, DISABLED_Queries)
{
    const bool strict = getenv("CUDA_SIM_CAPTURE") == nullptr;
    unsigned long long id;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(
        strict ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS,
        cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    EXPECT_EQ(strict ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS,
              end());
}

TEST_F(Capture, QueriesAreUnsafeWhereThatIsPlayed)
{
    EXPECT_EQ(0, run_alone("-u CUDA_SIM_CAPTURE", "Capture.DISABLED_Queries"));
    EXPECT_EQ(
        0, run_alone("CUDA_SIM_CAPTURE=lenient", "Capture.DISABLED_Queries"));
}

TEST_F(Capture, AKernelHoldsUpTheLegacyStreamOnly)
{
    std::atomic<bool> copied{false};
    char byte;
    cuda_sim_kernel_start();
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(CUDA_SUCCESS, end());
    EXPECT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&byte, address, 1, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_CUDA(cuStreamDestroy(stream));

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
