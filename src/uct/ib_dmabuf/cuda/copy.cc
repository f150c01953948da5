// SPDX-License-Identifier: BSD-3-Clause
#include "copy.h"
#include "capture.h"
#include "context.h"
#include "stream.h"
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

template <typename Copy>
ucs_status_t copy(const driver &cuda, uintptr_t device, size_t length,
                  const char *name, Copy &&call)
{
    relaxed_capture relaxed(cuda);
    scoped_context context(cuda, device);
    CUresult result = context.result();

    if (result == CUDA_SUCCESS) {
        copy_stream stream(cuda);
        result = stream.result();
        if (result == CUDA_SUCCESS) {
            result = call(stream.get());
        }
        if (result == CUDA_SUCCESS) {
            result = cuda.stream_synchronize(stream.get());
        }
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
    return copy(cuda, device, length, "cuMemcpyDtoHAsync",
                [&](CUstream stream) {
                    return cuda.memcpy_dtoh_async(host, device, length, stream);
                });
}

ucs_status_t cuda_copy_from_host(const driver &cuda, uintptr_t device,
                                 const void *host, size_t length)
{
    return copy(cuda, device, length, "cuMemcpyHtoDAsync",
                [&](CUstream stream) {
                    return cuda.memcpy_htod_async(device, host, length, stream);
                });
}

} // namespace ucx_ib_dmabuf
