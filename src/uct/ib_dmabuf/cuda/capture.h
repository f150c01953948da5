// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_CAPTURE_H_
#define UCX_IB_DMABUF_CUDA_CAPTURE_H_

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

} // namespace ucx_ib_dmabuf

#endif
