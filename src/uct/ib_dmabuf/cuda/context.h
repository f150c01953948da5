// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "driver.h"

namespace ucx_ib_dmabuf {

// The calling thread may make any call while streams capture, until the end of
// the scope. Else a stream that captures in global mode in whatever thread
// makes our calls fail, and they invalidate its capture.
class relaxed_capture {
public:
    explicit relaxed_capture(const driver &cuda)
        : cuda_(cuda),
          exchanged_(cuda.thread_exchange_capture_mode(&mode_) == CUDA_SUCCESS)
    {
    }
    ~relaxed_capture()
    {
        if (exchanged_) {
            cuda_.thread_exchange_capture_mode(&mode_);
        }
    }
    relaxed_capture(const relaxed_capture &)            = delete;
    relaxed_capture &operator=(const relaxed_capture &) = delete;

private:
    const driver &cuda_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool exchanged_; // for the caller's
};

// Makes a context current that reaches the memory at an address: its owner's;
// for pool and VMM memory, which has none, the thread's own if it is of that
// GPU, else the GPU's primary one. Afterwards everything is as before: what is
// current, if anything, and whether the primary context is active.
class scoped_context {
public:
    scoped_context(const driver &cuda, CUdeviceptr address);
    ~scoped_context();
    scoped_context(const scoped_context &)            = delete;
    scoped_context &operator=(const scoped_context &) = delete;

    // CUDA_ERROR_INVALID_VALUE: perhaps not CUDA memory.
    CUresult result() const { return result_; }
    // The driver does not say what is there: none of CUDA's, but for errors of
    // the thread's context, the process's state or an earlier call.
    bool is_unknown() const { return is_unknown_; }

private:
    CUresult enter(CUcontext owner, int ordinal);

    const driver &cuda_;
    CUdevice device_ = 0;
    CUresult result_ = CUDA_SUCCESS;
    bool is_unknown_ = false;
    bool pushed_     = false;
    bool retained_   = false;
};

} // namespace ucx_ib_dmabuf
