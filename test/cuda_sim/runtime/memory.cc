// SPDX-License-Identifier: BSD-3-Clause
#include "runtime.h"

using namespace ucx_ib_dmabuf::sim;

namespace {

CUdeviceptr dev(const void *address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

CUdeviceptr *dev(void **out)
{
    return reinterpret_cast<CUdeviceptr *>(out);
}

// Freeing nullptr only makes a context.
cudaError_t nothing_to_free()
{
    const Driver *d;
    return finish(begin(&d));
}

} // namespace

SIM_RUNTIME_FORWARD(cudaMalloc, cuMemAlloc, (dev(out), size), void **out,
                    size_t size)
SIM_RUNTIME_FORWARD(cudaMallocPitch, cuMemAllocPitch,
                    (dev(out), pitch, width, height, 4), void **out,
                    size_t *pitch, size_t width, size_t height)
SIM_RUNTIME_FORWARD(cudaMallocManaged, cuMemAllocManaged,
                    (dev(out), size, flags), void **out, size_t size,
                    unsigned flags)
SIM_RUNTIME_FORWARD(cudaHostAlloc, cuMemHostAlloc, (out, size, flags),
                    void **out, size_t size, unsigned flags)

SIM_RUNTIME(cudaError_t, cudaFree, void *address)
{
    if (!address)
        return nothing_to_free();
    SIM_FORWARD(cuMemFree, dev(address));
}

SIM_RUNTIME(cudaError_t, cudaFreeHost, void *address)
{
    if (!address)
        return nothing_to_free();
    SIM_FORWARD(cuMemFreeHost, address);
}

SIM_RUNTIME_FORWARD(cudaHostRegister, cuMemHostRegister, (address, size, flags),
                    void *address, size_t size, unsigned flags)
SIM_RUNTIME_FORWARD(cudaHostUnregister, cuMemHostUnregister, (address),
                    void *address)
SIM_RUNTIME_FORWARD(cudaHostGetDevicePointer, cuMemHostGetDevicePointer,
                    (dev(out), address, flags), void **out, void *address,
                    unsigned flags)
SIM_RUNTIME_FORWARD(cudaMallocAsync, cuMemAllocAsync, (dev(out), size, stream),
                    void **out, size_t size, cudaStream_t stream)
SIM_RUNTIME_FORWARD(cudaMallocFromPoolAsync, cuMemAllocFromPoolAsync,
                    (dev(out), size, pool, stream), void **out, size_t size,
                    cudaMemPool_t pool, cudaStream_t stream)

SIM_RUNTIME(cudaError_t, cudaFreeAsync, void *address, cudaStream_t stream)
{
    if (!address)
        return nothing_to_free();
    SIM_FORWARD(cuMemFreeAsync, dev(address), stream);
}

SIM_RUNTIME(cudaError_t, cudaMemcpy, void *to, const void *from, size_t size,
            cudaMemcpyKind kind)
{
    const Driver *d;
    if (cudaError_t error = begin(&d))
        return finish(error);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return finish(d->p_cuMemcpyHtoD(dev(to), from, size));
    case cudaMemcpyDeviceToHost:
        return finish(d->p_cuMemcpyDtoH(to, dev(from), size));
    case cudaMemcpyDeviceToDevice:
        return finish(d->p_cuMemcpyDtoD(dev(to), dev(from), size));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return finish(d->p_cuMemcpy(dev(to), dev(from), size));
    }
    return finish(cudaErrorInvalidMemcpyDirection);
}

SIM_RUNTIME_FORWARD(cudaMemset, cuMemsetD8,
                    (dev(to), static_cast<unsigned char>(value), size),
                    void *to, int value, size_t size)
