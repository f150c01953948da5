// SPDX-License-Identifier: BSD-3-Clause
#include "context.h"

namespace ucx_ib_dmabuf {

scoped_context::scoped_context(const driver &cuda, CUdeviceptr address)
    : cuda_(cuda)
{
    CUcontext owner             = nullptr;
    int ordinal                 = -1;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[]              = {&owner, &ordinal};

    result_ = cuda.pointer_get_attributes(2, names, values, address);
    if ((result_ == CUDA_SUCCESS) && (ordinal < 0)) {
        result_ = CUDA_ERROR_INVALID_VALUE;
    }
    is_unknown_ = (result_ != CUDA_SUCCESS);
    if (result_ == CUDA_SUCCESS) {
        result_ = enter(owner, ordinal);
    }
}

CUresult scoped_context::enter(CUcontext owner, int ordinal)
{
    CUdevice current = 0;
    CUresult result  = cuda_.device_get(&device_, ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (owner == nullptr) {
        if ((cuda_.ctx_get_device(&current) == CUDA_SUCCESS) &&
            (current == device_)) {
            return CUDA_SUCCESS;
        }
        // Creates a context only if none is active; it then ends with this
        // scope.
        result = cuda_.primary_ctx_retain(&owner, device_);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        retained_ = true;
    }
    result  = cuda_.ctx_push_current(owner);
    pushed_ = (result == CUDA_SUCCESS);
    return result;
}

scoped_context::~scoped_context()
{
    CUcontext context;

    if (pushed_) {
        cuda_.ctx_pop_current(&context);
    }
    if (retained_) {
        cuda_.primary_ctx_release(device_);
    }
}

} // namespace ucx_ib_dmabuf
