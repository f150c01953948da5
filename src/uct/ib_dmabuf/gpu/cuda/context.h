// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "driver.h"

namespace ucx_ib_dmabuf {

// Makes a context current that can access the memory at an address: its
// owner's. Pool and VMM memory has no owner: uses the thread's own context if
// it belongs to that GPU, else the GPU's primary one. For mapped host memory
// any GPU in use will do. The destructor restores the current context, if any,
// and whether the primary context is active.
class scoped_context {
public:
    scoped_context(const driver &cuda, CUdeviceptr address) : cuda_(cuda)
    {
        CUcontext owner             = nullptr;
        int gpu                     = no_gpu;
        CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void *values[]              = {&owner, &gpu};

        result_ = cuda.pointer_get_attributes(2, names, values, address);
        if ((result_ == CUDA_SUCCESS) && (gpu == no_gpu)) {
            result_ = CUDA_ERROR_INVALID_VALUE;
        }
        is_unknown_ = (result_ != CUDA_SUCCESS);
        if (!is_unknown_) {
            result_ = enter(owner, gpu);
        }
    }
    ~scoped_context()
    {
        CUcontext context;

        if (pushed_) {
            cuda_.ctx_pop_current(&context);
        }
        if (retained_) {
            cuda_.primary_ctx_release(device_);
        }
    }
    scoped_context(const scoped_context &)            = delete;
    scoped_context &operator=(const scoped_context &) = delete;

    // CUDA_ERROR_INVALID_VALUE: perhaps not CUDA memory.
    CUresult result() const { return result_; }
    // The driver does not know the address: no CUDA memory, except after errors
    // of the thread's context, the process's state or an earlier call.
    bool is_unknown() const { return is_unknown_; }

private:
    static constexpr int no_gpu = -2; // CU_DEVICE_INVALID

    CUresult enter(CUcontext owner, int gpu)
    {
        const bool any   = gpu < 0; // CU_DEVICE_CPU
        CUdevice current = 0;
        const bool has_current =
            (owner == nullptr) &&
            (cuda_.ctx_get_device(&current) == CUDA_SUCCESS);

        if (any && has_current) {
            return CUDA_SUCCESS;
        }
        if (any && ((gpu = cuda_.next_in_use(0)) < 0)) {
            is_unknown_ = true;
            return CUDA_ERROR_INVALID_VALUE;
        }
        CUresult result = cuda_.device_get(&device_, gpu);
        if ((result == CUDA_SUCCESS) && (owner == nullptr)) {
            if (has_current && (current == device_)) {
                return CUDA_SUCCESS;
            }
            // Creates a context only if none is active; it then ends with this
            // scope.
            result    = cuda_.primary_ctx_retain(&owner, device_);
            retained_ = (result == CUDA_SUCCESS);
        }
        if (result == CUDA_SUCCESS) {
            result  = cuda_.ctx_push_current(owner);
            pushed_ = (result == CUDA_SUCCESS);
        }
        return result;
    }

    const driver &cuda_;
    CUdevice device_ = 0;
    CUresult result_ = CUDA_SUCCESS;
    bool is_unknown_ = false;
    bool pushed_     = false;
    bool retained_   = false;
};

} // namespace ucx_ib_dmabuf
