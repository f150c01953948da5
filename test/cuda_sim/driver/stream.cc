// SPDX-License-Identifier: BSD-3-Clause
//
// Streams, events and host functions. Work is complete when it is queued, so
// every stream is always idle and every recorded event has happened, but for a
// kernel that a test starts.
#include "stream.h"
#include "../cuda_sim.h"
#include "calls.h"
#include "context.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_set>

namespace {

struct Capture {
    CUstreamCaptureMode mode;
    std::thread::id thread;
    bool invalidated = false;
};

} // namespace

struct CUstream_st {
    CUcontext context;
    unsigned flags;
    std::optional<Capture> capture;
};

struct CUevent_st {
    CUcontext context;
};

namespace ucx_ib_dmabuf::sim {

constinit std::atomic<int> captures{0};

namespace {

struct Handles {
    std::mutex lock;
    std::unordered_set<CUstream> streams;
    std::unordered_set<CUevent> events;
};

Handles &handles()
{
    static Handles &all = *new Handles();
    return all;
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

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Beside the calls that reports name, those that may be unsafe on some driver,
// queries among them.
constexpr std::string_view unsafe[] = {"cuCtxCreate",
                                       "cuCtxDestroy",
                                       "cuCtxSynchronize",
                                       "cuDevicePrimaryCtx",
                                       "cuIpc",
                                       "cuLibrary",
                                       "cuMem",
                                       "cuModule",
                                       "cuPointer",
                                       "cuStreamCreate"};

bool is_unsafe(std::string_view name)
{
    return name.find("Async") == name.npos &&
           std::any_of(std::begin(unsafe), std::end(unsafe),
                       [name](std::string_view each) {
                           return name.starts_with(each);
                       });
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

// Invalidates the captures of all streams for which 'disturbs' is true. Returns
// the error if there is one.
template <typename F>
CUresult invalidate(CUresult error, F disturbs)
{
    CUresult result = CUDA_SUCCESS;
    std::lock_guard guard(handles().lock);
    for (CUstream stream : handles().streams) {
        if (stream->capture && disturbs(stream)) {
            stream->capture->invalidated = true;
            result                       = error;
        }
    }
    return result;
}

CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
    if (is_default(stream) || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(handles().lock);
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = {mode, std::this_thread::get_id()};
    ++captures;
    return CUDA_SUCCESS;
}

// The resulting graph is empty.
CUresult end(CUstream stream, CUgraph *out)
{
    if (!out || !is_capturing(stream))
        return CUDA_ERROR_ILLEGAL_STATE;
    std::lock_guard guard(handles().lock);
    const Capture capture = *stream->capture;
    if (capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture.thread != std::this_thread::get_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    stream->capture.reset();
    --captures;
    *out = capture.invalidated ? nullptr : any_graph();
    return capture.invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                               : CUDA_SUCCESS;
}

CUresult state_of(CUstream stream, CUstreamCaptureStatus *out)
{
    const bool captures = is_capturing(stream);
    std::lock_guard guard(handles().lock);
    *out = !captures                      ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

bool is_event(CUevent event)
{
    std::lock_guard guard(handles().lock);
    return handles().events.count(event) != 0;
}

// For recording an event and for waiting for it: nothing is left to do.
CUresult with_event(CUevent event)
{
    return is_event(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult synchronize(CUstream stream)
{
    if (is_capturing(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (blocking_context(stream))
        wait_for_kernel();
    synchronized();
    return CUDA_SUCCESS;
}

// Calls the function in the calling thread, before returning.
CUresult add_callback(CUstream stream, CUstreamCallback function,
                      void *argument, unsigned flags)
{
    if (!function || flags)
        return CUDA_ERROR_INVALID_VALUE;
    function(stream, CUDA_SUCCESS, argument);
    return CUDA_SUCCESS;
}

void destroy(CUstream stream)
{
    captures -= stream->capture.has_value();
    delete stream;
}

void destroy(CUevent event)
{
    delete event;
}

// Ends a handle that its program destroys.
template <typename T>
CUresult remove(std::unordered_set<T> &all, T handle)
{
    std::lock_guard guard(handles().lock);
    if (!all.erase(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(handle);
    return CUDA_SUCCESS;
}

} // namespace

bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY ||
           stream == CU_STREAM_PER_THREAD;
}

CUcontext blocking_context(CUstream stream)
{
    if (is_default(stream))
        return stream == CU_STREAM_PER_THREAD ? nullptr : current_context();
    return stream->flags & CU_STREAM_NON_BLOCKING ? nullptr : stream->context;
}

CUresult need_stream(CUstream stream)
{
    if (is_default(stream))
        return need_context();
    std::lock_guard guard(handles().lock);
    return handles().streams.count(stream) ? CUDA_SUCCESS
                                           : CUDA_ERROR_INVALID_HANDLE;
}

int stream_device(CUstream stream)
{
    CUcontext context =
        is_default(stream) ? current_context() : stream->context;
    return context ? context->device : -1;
}

bool is_capturing(CUstream stream)
{
    if (!captures)
        return false;
    std::lock_guard guard(handles().lock);
    return handles().streams.count(stream) && stream->capture;
}

CUresult capture_check(const char *name)
{
    return is_unsafe(name) ? invalidate(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                        [](CUstream stream) {
                                            return prohibits(*stream->capture);
                                        })
                           : CUDA_SUCCESS;
}

CUresult legacy_work(CUcontext context)
{
    return captures && context
               ? invalidate(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                            [context](CUstream stream) {
                                return blocking_context(stream) == context;
                            })
               : CUDA_SUCCESS;
}

void wait_for_kernel()
{
    std::unique_lock guard(kernel().lock);
    ++kernel().waiters;
    kernel().ended.wait(guard, [] { return kernel().running == 0; });
    --kernel().waiters;
}

void destroy_streams(CUcontext context)
{
    const auto drop = [context](auto *handle) {
        const bool gone = handle->context == context;
        if (gone)
            destroy(handle);
        return gone;
    };
    std::lock_guard guard(handles().lock);
    std::erase_if(handles().streams, drop);
    std::erase_if(handles().events, drop);
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
SIM_ENTRY_BOTH(stream, cuStreamBeginCapture_v2, _ptsz, begin(stream, mode),
               CUstream stream, CUstreamCaptureMode mode)
SIM_ENTRY_BOTH(driver, cuStreamEndCapture, _ptsz, end(stream, out),
               CUstream stream, CUgraph *out)
SIM_ENTRY_BOTH(stream, cuStreamIsCapturing, _ptsz, state_of(stream, out),
               CUstream stream, CUstreamCaptureStatus *out)
SIM_ENTRY_BOTH(stream, cuStreamSynchronize, _ptsz, synchronize(stream),
               CUstream stream)
SIM_ENTRY_BOTH(stream, cuStreamWaitEvent, _ptsz, with_event(event),
               CUstream, CUevent event, unsigned)
SIM_ENTRY_BOTH(stream, cuEventRecord, _ptsz, with_event(event),
               CUevent event, CUstream)
SIM_ENTRY_BOTH(stream, cuStreamAddCallback, _ptsz,
               add_callback(stream, function, argument, flags),
               CUstream stream, CUstreamCallback function, void *argument,
               unsigned flags)
// clang-format on
SIM_ENTRY_IS(driver, cuStreamDestroy_v2, remove(handles().streams, stream),
             CUstream stream)
SIM_ENTRY_IS(driver, cuEventDestroy_v2, remove(handles().events, event),
             CUevent event)
SIM_ENTRY_IS(driver, cuEventQuery, with_event(event), CUevent event)

SIM_ENTRY(anytime, cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
}

SIM_ENTRY(context, cuStreamCreate, CUstream *out, unsigned flags)
{
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(handles().lock);
    *out = new CUstream_st{current_context(), flags, {}};
    handles().streams.insert(*out);
    return CUDA_SUCCESS;
}

SIM_ENTRY(context, cuEventCreate, CUevent *out, unsigned)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(handles().lock);
    *out = new CUevent_st{current_context()};
    handles().events.insert(*out);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuEventSynchronize, CUevent event)
{
    if (CUresult error = with_event(event))
        return error;
    synchronized();
    return CUDA_SUCCESS;
}

SIM_ENTRY(context, cuCtxSynchronize)
{
    wait_for_kernel();
    synchronized();
    return CUDA_SUCCESS;
}
