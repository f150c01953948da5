// SPDX-License-Identifier: BSD-3-Clause
//
// Streams, events and host functions. Work is complete when it is queued, so
// every stream is always idle and every recorded event has happened.
#include "stream.h"
#include "calls.h"
#include "capture.h"
#include "context.h"

#include <mutex>
#include <unordered_set>

struct CUstream_st {
    CUcontext context;
    unsigned flags;
};

struct CUevent_st {
    CUcontext context;
};

namespace ucx_ib_dmabuf::sim {
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

bool is_event(CUevent event)
{
    std::lock_guard guard(handles().lock);
    return handles().events.count(event) != 0;
}

// For recording an event and for waiting for it: nothing is left to do.
CUresult with_event(CUstream stream, CUevent event)
{
    CUresult result = need_stream(stream);
    if (result == CUDA_SUCCESS && !is_event(event))
        result = CUDA_ERROR_INVALID_HANDLE;
    return result;
}

CUresult synchronize(CUstream stream)
{
    if (CUresult error = need_stream(stream))
        return error;
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
    if (CUresult error = need_stream(stream))
        return error;
    if (!function || flags)
        return CUDA_ERROR_INVALID_VALUE;
    function(stream, CUDA_SUCCESS, argument);
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
    if (is_default(stream)) {
        CUcontext context;
        return need_context(&context);
    }
    std::lock_guard guard(handles().lock);
    return handles().streams.count(stream) ? CUDA_SUCCESS
                                           : CUDA_ERROR_INVALID_HANDLE;
}

int stream_device(CUstream stream)
{
    CUcontext context = current_context();
    if (!is_default(stream))
        context = stream->context;
    return context ? context->device : -1;
}

void destroy_streams(CUcontext context)
{
    const auto drop = [context](auto *handle) {
        const bool gone = handle->context == context;
        if (gone)
            delete handle;
        return gone;
    };
    std::lock_guard guard(handles().lock);
    for (CUstream stream : handles().streams) {
        if (stream->context == context)
            forget_capture(stream);
    }
    std::erase_if(handles().streams, drop);
    std::erase_if(handles().events, drop);
}

} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

// clang-format off
SIM_ENTRY_BOTH(cuStreamSynchronize, _ptsz, synchronize(stream), CUstream stream)
SIM_ENTRY_BOTH(cuStreamWaitEvent, _ptsz,
     with_event(stream, event), CUstream stream,
     CUevent event, unsigned)
SIM_ENTRY_BOTH(cuEventRecord, _ptsz,
     with_event(stream, event), CUevent event, CUstream stream)
SIM_ENTRY_BOTH(cuStreamAddCallback, _ptsz,
     add_callback(stream, function, argument, flags),
     CUstream stream, CUstreamCallback function, void *argument, unsigned flags)
// clang-format on

SIM_ENTRY(cuStreamCreate, CUstream *out, unsigned flags)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(handles().lock);
    *out = new CUstream_st{context, flags};
    handles().streams.insert(*out);
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuStreamDestroy_v2, CUstream stream)
{
    std::lock_guard guard(handles().lock);
    if (!handles().streams.erase(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    forget_capture(stream);
    delete stream;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuEventCreate, CUevent *out, unsigned)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(handles().lock);
    *out = new CUevent_st{context};
    handles().events.insert(*out);
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuEventDestroy_v2, CUevent event)
{
    std::lock_guard guard(handles().lock);
    if (!handles().events.erase(event))
        return CUDA_ERROR_INVALID_HANDLE;
    delete event;
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(cuEventQuery,
             is_event(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE,
             CUevent event)

SIM_ENTRY(cuEventSynchronize, CUevent event)
{
    if (!is_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    synchronized();
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuCtxSynchronize)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    wait_for_kernel();
    synchronized();
    return CUDA_SUCCESS;
}
