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

cudaError_t copy(void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice: {
        SIM_FORWARD(cuMemcpyHtoD, dev(to), from, size);
    }
    case cudaMemcpyDeviceToHost: {
        SIM_FORWARD(cuMemcpyDtoH, to, dev(from), size);
    }
    case cudaMemcpyDeviceToDevice: {
        SIM_FORWARD(cuMemcpyDtoD, dev(to), dev(from), size);
    }
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: {
        SIM_FORWARD(cuMemcpy, dev(to), dev(from), size);
    }
    default:
        return finish(cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t copy_async(void *to, const void *from, size_t size,
                       cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice: {
        SIM_FORWARD(cuMemcpyHtoDAsync, dev(to), from, size, stream);
    }
    case cudaMemcpyDeviceToHost: {
        SIM_FORWARD(cuMemcpyDtoHAsync, to, dev(from), size, stream);
    }
    case cudaMemcpyDeviceToDevice: {
        SIM_FORWARD(cuMemcpyDtoDAsync, dev(to), dev(from), size, stream);
    }
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: {
        SIM_FORWARD(cuMemcpyAsync, dev(to), dev(from), size, stream);
    }
    default:
        return finish(cudaErrorInvalidMemcpyDirection);
    }
}

// Freeing nothing only makes a context.
cudaError_t nothing_to_free()
{
    const Driver *d;
    return finish(begin(&d));
}

cudaError_t pointer_attributes(cudaPointerAttributes *out, const void *address)
{
    const Driver *d;
    cudaError_t error = begin(&d);
    if (error != cudaSuccess)
        return error;
    unsigned type = 0, managed = 0;
    int device                  = -1;
    CUdeviceptr pointer         = 0;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void *data[]                = {&type, &managed, &device, &pointer};
    CUresult result = d->p_cuPointerGetAttributes(4, which, data, dev(address));
    if (result != CUDA_SUCCESS)
        return cudaError_t(result);
    bool reached       = type == CU_MEMORYTYPE_HOST || managed;
    *out               = {};
    out->type          = managed                        ? cudaMemoryTypeManaged
                         : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                         : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                        : cudaMemoryTypeUnregistered;
    out->device        = device;
    out->devicePointer = reinterpret_cast<void *>(pointer);
    out->hostPointer = reached || !type ? const_cast<void *>(address) : nullptr;
    return cudaSuccess;
}

} // namespace

SIM_RUNTIME(cudaError_t, cudaMalloc, void **out, size_t size)
{
    SIM_FORWARD(cuMemAlloc, dev(out), size);
}

SIM_RUNTIME(cudaError_t, cudaMallocPitch, void **out, size_t *pitch,
            size_t width, size_t height)
{
    SIM_FORWARD(cuMemAllocPitch, dev(out), pitch, width, height, 4);
}

SIM_RUNTIME(cudaError_t, cudaMallocManaged, void **out, size_t size,
            unsigned flags)
{
    SIM_FORWARD(cuMemAllocManaged, dev(out), size, flags);
}

SIM_RUNTIME(cudaError_t, cudaMallocHost, void **out, size_t size)
{
    SIM_FORWARD(cuMemHostAlloc, out, size, 0);
}

SIM_RUNTIME(cudaError_t, cudaHostAlloc, void **out, size_t size, unsigned flags)
{
    SIM_FORWARD(cuMemHostAlloc, out, size, flags);
}

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

SIM_RUNTIME(cudaError_t, cudaHostRegister, void *address, size_t size,
            unsigned flags)
{
    SIM_FORWARD(cuMemHostRegister, address, size, flags);
}

SIM_RUNTIME(cudaError_t, cudaHostUnregister, void *address)
{
    SIM_FORWARD(cuMemHostUnregister, address);
}

SIM_RUNTIME(cudaError_t, cudaHostGetDevicePointer, void **out, void *address,
            unsigned flags)
{
    SIM_FORWARD(cuMemHostGetDevicePointer, dev(out), address, flags);
}

SIM_RUNTIME(cudaError_t, cudaMallocAsync, void **out, size_t size,
            cudaStream_t stream)
{
    SIM_FORWARD(cuMemAllocAsync, dev(out), size, stream);
}

SIM_RUNTIME(cudaError_t, cudaMallocFromPoolAsync, void **out, size_t size,
            cudaMemPool_t pool, cudaStream_t stream)
{
    SIM_FORWARD(cuMemAllocFromPoolAsync, dev(out), size, pool, stream);
}

SIM_RUNTIME(cudaError_t, cudaFreeAsync, void *address, cudaStream_t stream)
{
    if (!address)
        return nothing_to_free();
    SIM_FORWARD(cuMemFreeAsync, dev(address), stream);
}

SIM_RUNTIME(cudaError_t, cudaMemcpy, void *to, const void *from, size_t size,
            cudaMemcpyKind kind)
{
    return copy(to, from, size, kind);
}

SIM_RUNTIME(cudaError_t, cudaMemcpyAsync, void *to, const void *from,
            size_t size, cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_async(to, from, size, kind, stream);
}

SIM_RUNTIME(cudaError_t, cudaMemcpyPeer, void *to, int, const void *from, int,
            size_t size)
{
    return copy(to, from, size, cudaMemcpyDeviceToDevice);
}

SIM_RUNTIME(cudaError_t, cudaMemcpyPeerAsync, void *to, int, const void *from,
            int, size_t size, cudaStream_t stream)
{
    return copy_async(to, from, size, cudaMemcpyDeviceToDevice, stream);
}

SIM_RUNTIME(cudaError_t, cudaMemset, void *to, int value, size_t size)
{
    SIM_FORWARD(cuMemsetD8, dev(to), static_cast<unsigned char>(value), size);
}

SIM_RUNTIME(cudaError_t, cudaMemsetAsync, void *to, int value, size_t size,
            cudaStream_t stream)
{
    SIM_FORWARD(cuMemsetD8Async, dev(to), static_cast<unsigned char>(value),
                size, stream);
}

SIM_RUNTIME(cudaError_t, cudaMemGetInfo, size_t *free_bytes, size_t *total)
{
    SIM_FORWARD(cuMemGetInfo, free_bytes, total);
}

SIM_RUNTIME(cudaError_t, cudaPointerGetAttributes, cudaPointerAttributes *out,
            const void *address)
{
    return finish(pointer_attributes(out, address));
}
