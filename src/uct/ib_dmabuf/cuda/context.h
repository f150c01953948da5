// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_CONTEXT_H_
#define UCX_IB_DMABUF_CUDA_CONTEXT_H_

#include "driver.h"

namespace ucx_ib_dmabuf {

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

    // CUDA_ERROR_INVALID_VALUE: not CUDA memory.
    CUresult result() const { return result_; }

private:
    CUresult enter(CUcontext owner, int ordinal);

    const driver &cuda_;
    CUdevice device_ = 0;
    CUresult result_ = CUDA_SUCCESS;
    bool pushed_     = false;
    bool retained_   = false;
};

} // namespace ucx_ib_dmabuf

#endif
