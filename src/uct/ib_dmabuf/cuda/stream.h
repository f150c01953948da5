// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_STREAM_H_
#define UCX_IB_DMABUF_CUDA_STREAM_H_

#include "driver.h"

namespace ucx_ib_dmabuf {

// A stream of the current context that waits for no other: a kernel of the
// program may itself wait for the message that is being copied. It is kept for
// as long as its context lives, if the driver tells contexts apart (CUDA 12);
// else it is for this scope.
class copy_stream {
public:
    explicit copy_stream(const driver &cuda);
    ~copy_stream();
    copy_stream(const copy_stream &)            = delete;
    copy_stream &operator=(const copy_stream &) = delete;

    CUresult result() const { return result_; }
    CUstream get() const { return stream_; }

private:
    const driver &cuda_;
    CUstream stream_ = nullptr;
    CUresult result_ = CUDA_SUCCESS;
    bool kept_       = false;
};

} // namespace ucx_ib_dmabuf

#endif
