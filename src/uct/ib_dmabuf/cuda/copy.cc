// SPDX-License-Identifier: BSD-3-Clause
#include "copy.h"
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

// Makes a context current that reaches the memory at an address.
class scoped_context {
public:
    scoped_context(const driver &cuda, CUdeviceptr address) : cuda_(cuda)
    {
        CUcontext context = nullptr;

        // Pool and VMM memory belongs to no context.
        result_ = cuda.pointer_get_attribute(
            &context, CU_POINTER_ATTRIBUTE_CONTEXT, address);
        if ((result_ != CUDA_SUCCESS) || (context == nullptr)) {
            result_ = retain_primary(address, &context);
        }
        if (result_ == CUDA_SUCCESS) {
            result_ = cuda.ctx_push_current(context);
            pushed_ = (result_ == CUDA_SUCCESS);
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

    CUresult result() const { return result_; }

private:
    CUresult retain_primary(CUdeviceptr address, CUcontext *context)
    {
        int ordinal     = 0;
        CUresult result = cuda_.pointer_get_attribute(
            &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);

        if (result == CUDA_SUCCESS) {
            result = cuda_.device_get(&device_, ordinal);
        }
        if (result == CUDA_SUCCESS) {
            result    = cuda_.primary_ctx_retain(context, device_);
            retained_ = (result == CUDA_SUCCESS);
        }
        return result;
    }

    const driver &cuda_;
    CUdevice device_ = 0;
    CUresult result_ = CUDA_SUCCESS;
    bool pushed_     = false;
    bool retained_   = false;
};

template <typename Copy>
ucs_status_t copy(const driver &cuda, uintptr_t device, size_t length,
                  const char *name, Copy &&call)
{
    scoped_context context(cuda, device);
    CUresult result = context.result();

    if (result == CUDA_SUCCESS) {
        result = call();
    }
    if (result != CUDA_SUCCESS) {
        ucs_error("ib_dmabuf: %s(0x%zx, %zu bytes) failed: %s", name, device,
                  length, cuda.error(result).c_str());
    }
    return to_status(result);
}

} // namespace

ucs_status_t cuda_copy_to_host(const driver &cuda, void *host, uintptr_t device,
                               size_t length)
{
    return copy(cuda, device, length, "cuMemcpyDtoH",
                [&] { return cuda.memcpy_dtoh(host, device, length); });
}

ucs_status_t cuda_copy_from_host(const driver &cuda, uintptr_t device,
                                 const void *host, size_t length)
{
    return copy(cuda, device, length, "cuMemcpyHtoD",
                [&] { return cuda.memcpy_htod(device, host, length); });
}

} // namespace ucx_ib_dmabuf
