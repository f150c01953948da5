// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "driver.h"

namespace ucx_ib_dmabuf {

// Until the end of the scope the calling thread may make any call during stream
// captures. Otherwise any thread's capture in global mode makes our calls fail,
// and they invalidate that capture.
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
    const bool exchanged_; // to restore the caller's mode
};

// Makes a context current that can access the memory at an address: its
// owner's. Pool and VMM memory has no owner: uses the thread's own context if
// it belongs to that GPU, else the GPU's primary one. The destructor restores
// the current context, if any, and whether the primary context is active.
class scoped_context {
public:
    scoped_context(const driver &cuda, CUdeviceptr address);
    ~scoped_context();
    scoped_context(const scoped_context &)            = delete;
    scoped_context &operator=(const scoped_context &) = delete;

    // CUDA_ERROR_INVALID_VALUE: perhaps not CUDA memory.
    CUresult result() const { return result_; }
    // The driver does not know the address: no CUDA memory, except after errors
    // of the thread's context, the process's state or an earlier call.
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
