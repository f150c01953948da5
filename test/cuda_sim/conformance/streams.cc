// SPDX-License-Identifier: BSD-3-Clause
//
// Which calls disturb a stream that captures, and which wait for a kernel (a
// program on the GPU) in the legacy stream, such as one that waits for a
// message.
#include "conformance.h"

#include <chrono>
#include <functional>
#include <thread>

namespace ucx_ib_dmabuf::conformance {
namespace {

// Copies a byte to the host and waits for it.
CUresult copy_in(CUstream stream, CUdeviceptr address)
{
    char byte;
    const CUresult result =
        GPU_TRY(cuMemcpyDtoHAsync, &byte, address, 1, stream);
    return result == CUDA_SUCCESS ? GPU_TRY(cuStreamSynchronize, stream)
                                  : result;
}

// The same in a new stream, which waits for no other stream.
CUresult copy_in_own_stream(CUdeviceptr address)
{
    CUstream stream;
    CUresult result = GPU_TRY(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS)
        return result;
    result = copy_in(stream, address);
    GPU_TRY(cuStreamDestroy, stream);
    return result;
}

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

constexpr auto runs_for = std::chrono::milliseconds(100);

// Runs for `length` ns.
constexpr char program[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 length)
{
    .reg .u64 %start, %now, %length;
    .reg .pred %more;
    ld.param.u64 %length, [length];
    mov.u64 %start, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %more, %now, %length;
    @%more bra again;
    ret;
}
)";

// Ends by itself, also on the simulated GPU, which runs no programs.
class kernel {
public:
    kernel()
    {
        if (!gpu::is_simulated() &&
            GPU_TRY(cuModuleLoadData, &module_, program) == CUDA_SUCCESS) {
            GPU_TRY(cuModuleGetFunction, &spin_, module_, "spin");
        }
    }
    ~kernel()
    {
        if (module_ != nullptr)
            GPU_TRY(cuModuleUnload, module_);
    }
    kernel(const kernel &)            = delete;
    kernel &operator=(const kernel &) = delete;

    bool valid() const { return gpu::is_simulated() || spin_ != nullptr; }

    // Whether the kernel still runs when the call returns.
    bool outlasts(const std::function<void()> &call)
    {
        if (gpu::is_simulated())
            return !gpu::waits_for_kernel(call);
        unsigned long long length = std::chrono::nanoseconds(runs_for).count();
        void *arguments[]         = {&length};
        GPU_TRY(cuLaunchKernel, spin_, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments,
                nullptr);
        call();
        const bool runs =
            GPU_TRY(cuStreamQuery, nullptr) == CUDA_ERROR_NOT_READY;
        GPU_TRY(cuCtxSynchronize);
        return runs;
    }

private:
    CUmodule module_ = nullptr;
    CUfunction spin_ = nullptr;
};

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

void check_kernels()
{
    section("while a kernel runs");
    kernel running;
    CUdeviceptr memory;
    CUstream stream;
    if (!running.valid() ||
        GPU_TRY(cuMemAlloc, &memory, 4 * MiB) != CUDA_SUCCESS ||
        GPU_TRY(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING) !=
            CUDA_SUCCESS) {
        observe("a kernel", "not possible, nothing to check");
        return;
    }
    const auto does_not_wait = [&](const char *name, const auto &call) {
        claim(running.outlasts(call), std::string(name) + " does not wait");
    };
    // The first copy is not measured, as it sets things up.
    copy_in(stream, memory);
    does_not_wait("a query", [&] { buffer_id(memory); });
    does_not_wait("an export", [&] { try_export(memory, 4 * MiB); });
    does_not_wait("a copy in a stream of its own",
                  [&] { copy_in(stream, memory); });
    does_not_wait("a first copy in a new stream",
                  [&] { copy_in_own_stream(memory); });
    does_not_wait("mapped memory's beginning and end",
                  [] { gpu::segments mapping(1); });
    claim(!running.outlasts([&] { copy_in(nullptr, memory); }),
          "a copy in the legacy stream waits");
    GPU_TRY(cuMemFree, memory);
    GPU_TRY(cuStreamDestroy, stream);
}

} // namespace ucx_ib_dmabuf::conformance
