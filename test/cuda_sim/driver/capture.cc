// SPDX-License-Identifier: BSD-3-Clause
#include "capture.h"
#include "../cuda_sim.h"
#include "calls.h"
#include "context.h"
#include "settings.h"
#include "stream.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

namespace ucx_ib_dmabuf::sim {

constinit std::atomic<int> captures{0};

namespace {

struct Capture {
    CUstreamCaptureMode mode;
    std::thread::id thread;
    CUcontext blocking; // of a stream that waits for the legacy one; else null
    bool invalidated = false;
};

struct Captures {
    std::mutex lock;
    std::map<CUstream, Capture> all;
};

Captures &under_way()
{
    static Captures &all = *new Captures();
    return all;
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Calls that reports name, and calls that may be unsafe as well.
constexpr std::string_view known_unsafe[] = {
    "cuCtxSynchronize", "cuMemAlloc", "cuMemFree", "cuMemHost",
    "cuMemPoolTrim",    "cuMemcpy",   "cuMemset"};
constexpr std::string_view perhaps_unsafe[] = {
    "cuCtxCreate", "cuCtxDestroy", "cuDevicePrimaryCtx",
    "cuIpc",       "cuLibrary",    "cuMem",
    "cuModule",    "cuPointer",    "cuStreamCreate"};

bool is_unsafe(std::string_view name)
{
    if (name.find("Async") != name.npos)
        return false;
    for (std::string_view each : known_unsafe) {
        if (name.starts_with(each))
            return true;
    }
    for (std::string_view each : perhaps_unsafe) {
        if (settings().strict_capture && name.starts_with(each))
            return true;
    }
    return false;
}

// As documented for cuThreadExchangeStreamCaptureMode.
bool prohibits(const Capture &capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return capture.thread == std::this_thread::get_id() ||
           (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
            capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
    if (CUresult error = need_stream(stream))
        return error;
    if (is_default(stream) || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    const Capture capture{mode, std::this_thread::get_id(),
                          blocking_context(stream)};
    std::lock_guard guard(under_way().lock);
    if (!under_way().all.emplace(stream, capture).second)
        return CUDA_ERROR_ILLEGAL_STATE;
    ++captures;
    return CUDA_SUCCESS;
}

// The resulting graph is empty.
CUresult end(CUstream stream, CUgraph *out)
{
    std::lock_guard guard(under_way().lock);
    auto one = under_way().all.find(stream);
    if (!out || one == under_way().all.end())
        return CUDA_ERROR_ILLEGAL_STATE;
    const Capture capture = one->second;
    if (capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture.thread != std::this_thread::get_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    under_way().all.erase(one);
    --captures;
    *out = capture.invalidated ? nullptr : any_graph();
    return capture.invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                               : CUDA_SUCCESS;
}

CUresult state_of(CUstream stream, CUstreamCaptureStatus *out)
{
    if (CUresult error = need_stream(stream))
        return error;
    std::lock_guard guard(under_way().lock);
    auto one = under_way().all.find(stream);
    *out     = one == under_way().all.end() ? CU_STREAM_CAPTURE_STATUS_NONE
               : one->second.invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

struct Kernel {
    std::mutex lock;
    std::condition_variable ended;
    unsigned running = 0;
    uint64_t waiters = 0;
};

Kernel &kernel()
{
    static Kernel &one = *new Kernel();
    return one;
}

} // namespace

CUgraph any_graph()
{
    static char graph;
    return reinterpret_cast<CUgraph>(&graph);
}

CUresult capture_check(const char *name)
{
    if (!is_unsafe(name))
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    std::lock_guard guard(under_way().lock);
    for (auto &[stream, capture] : under_way().all) {
        if (prohibits(capture)) {
            capture.invalidated = true;
            result              = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

bool is_capturing(CUstream stream)
{
    if (!captures)
        return false;
    std::lock_guard guard(under_way().lock);
    return under_way().all.count(stream) != 0;
}

void forget_capture(CUstream stream)
{
    std::lock_guard guard(under_way().lock);
    if (under_way().all.erase(stream))
        --captures;
}

CUresult legacy_work(CUcontext context)
{
    if (!captures || !context)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    std::lock_guard guard(under_way().lock);
    for (auto &[stream, capture] : under_way().all) {
        if (capture.blocking == context) {
            capture.invalidated = true;
            result              = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

void wait_for_kernel()
{
    std::unique_lock guard(kernel().lock);
    ++kernel().waiters;
    kernel().ended.wait(guard, [] { return kernel().running == 0; });
    --kernel().waiters;
}

} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

extern "C" SIM_PUBLIC void cuda_sim_kernel_start(void)
{
    std::lock_guard guard(kernel().lock);
    ++kernel().running;
}

extern "C" SIM_PUBLIC void cuda_sim_kernel_stop(void)
{
    std::lock_guard guard(kernel().lock);
    --kernel().running;
    kernel().ended.notify_all();
}

extern "C" SIM_PUBLIC uint64_t cuda_sim_kernel_waiters(void)
{
    std::lock_guard guard(kernel().lock);
    return kernel().running ? kernel().waiters : 0;
}

#undef cuStreamBeginCapture
// clang-format off
SIM_ENTRY_BOTH(cuStreamBeginCapture_v2, _ptsz,
     begin(stream, mode), CUstream stream,
     CUstreamCaptureMode mode)
SIM_ENTRY_BOTH(cuStreamEndCapture, _ptsz,
     end(stream, out), CUstream stream, CUgraph *out)
SIM_ENTRY_BOTH(cuStreamIsCapturing, _ptsz,
     state_of(stream, out), CUstream stream,
     CUstreamCaptureStatus *out)
// clang-format on

SIM_ENTRY_ANYTIME(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
}
