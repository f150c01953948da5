// SPDX-License-Identifier: BSD-3-Clause
//
// Checks which calls disturb a stream that captures, and that a thread in
// relaxed capture mode disturbs none.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <functional>
#include <thread>

namespace ucx_ib_dmabuf::conformance {
namespace {

using Action = std::function<CUresult()>;

CUstreamCaptureMode exchange(CUstreamCaptureMode mode)
{
    GPU_TRY(cuThreadExchangeStreamCaptureMode, &mode);
    return mode;
}

// The result of a call in a relaxed thread while a stream captures in global
// mode, and the result of that capture.
struct Outcome {
    CUresult call, end;
    bool undisturbed() const
    {
        return call == CUDA_SUCCESS && end == CUDA_SUCCESS;
    }
    std::string text() const { return name_of(call) + ", " + name_of(end); }
};

Outcome during_capture(unsigned flags, const Action &action)
{
    Outcome outcome{CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN};
    CUstream stream;
    CUgraph graph     = nullptr;
    CUcontext context = nullptr;
    GPU_TRY(cuCtxGetCurrent, &context);
    if (GPU_TRY(cuStreamCreate, &stream, flags) != CUDA_SUCCESS)
        return outcome;
    if (GPU_TRY(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_SUCCESS) {
        std::thread([&] {
            GPU_TRY(cuCtxSetCurrent, context);
            exchange(CU_STREAM_CAPTURE_MODE_RELAXED);
            outcome.call = action();
        }).join();
        outcome.end = GPU_TRY(cuStreamEndCapture, stream, &graph);
        if (graph)
            GPU_TRY(cuGraphDestroy, graph);
    }
    GPU_TRY(cuStreamDestroy, stream);
    return outcome;
}

void each(const char *name, const Action &action)
{
    for (unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
        Outcome seen = during_capture(flags, action);
        claim(seen.undisturbed(),
              std::string(name) +
                  " in a relaxed thread disturbs no capture of a " +
                  (flags == CU_STREAM_DEFAULT ? "blocking stream"
                                              : "stream that is not blocking"),
              seen.text());
    }
}

} // namespace

void check_captures()
{
    section("while a stream captures");
    const gpu::buffer memory(2 * MiB);
    const gpu::segments mapping(1);
    const CUdeviceptr address = memory.address();
    CUdeviceptr base;
    size_t size;
    each("cuPointerGetAttribute", [&] {
        unsigned long long id;
        return GPU_TRY(cuPointerGetAttribute, &id,
                       CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    });
    each("cuMemGetAddressRange", [&] {
        return GPU_TRY(cuMemGetAddressRange, &base, &size, mapping.address());
    });
    if (try_export(address, 2 * MiB) == CUDA_SUCCESS)
        each("cuMemGetHandleForAddressRange",
             [&] { return try_export(address, 2 * MiB); });
    each("a copy in a stream of its own",
         [&] { return copy_in_own_stream(address); });
    claim(exchange(CU_STREAM_CAPTURE_MODE_RELAXED) ==
                  CU_STREAM_CAPTURE_MODE_GLOBAL &&
              exchange(CU_STREAM_CAPTURE_MODE_GLOBAL) ==
                  CU_STREAM_CAPTURE_MODE_RELAXED,
          "cuThreadExchangeStreamCaptureMode gives the mode back");
}

} // namespace ucx_ib_dmabuf::conformance
