// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated libcudart: a thin layer over the process's libcuda.so.1. Like
// NVIDIA's, it calls the driver through pointers from cuGetProcAddress.
#pragma once

#include "../entry.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace ucx_ib_dmabuf::sim {

// The driver's entry points: name as looked up, parameters.
#define SIM_DRIVER_CALLS(CALL)                                                 \
    CALL(cuInit, unsigned)                                                     \
    CALL(cuGetErrorString, CUresult, const char **)                            \
    CALL(cuDeviceGetCount, int *)                                              \
    CALL(cuDeviceGetPCIBusId, char *, int, CUdevice)                           \
    CALL(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                      \
    CALL(cuDevicePrimaryCtxRelease, CUdevice)                                  \
    CALL(cuDevicePrimaryCtxReset, CUdevice)                                    \
    CALL(cuCtxGetCurrent, CUcontext *)                                         \
    CALL(cuCtxSetCurrent, CUcontext)                                           \
    CALL(cuCtxGetDevice, CUdevice *)                                           \
    CALL(cuCtxSynchronize)                                                     \
    CALL(cuMemAlloc, CUdeviceptr *, size_t)                                    \
    CALL(cuMemAllocPitch, CUdeviceptr *, size_t *, size_t, size_t, unsigned)   \
    CALL(cuMemAllocManaged, CUdeviceptr *, size_t, unsigned)                   \
    CALL(cuMemFree, CUdeviceptr)                                               \
    CALL(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)                     \
    CALL(cuMemAllocFromPoolAsync, CUdeviceptr *, size_t, CUmemoryPool,         \
         CUstream)                                                             \
    CALL(cuMemFreeAsync, CUdeviceptr, CUstream)                                \
    CALL(cuMemHostAlloc, void **, size_t, unsigned)                            \
    CALL(cuMemFreeHost, void *)                                                \
    CALL(cuMemHostRegister, void *, size_t, unsigned)                          \
    CALL(cuMemHostUnregister, void *)                                          \
    CALL(cuMemHostGetDevicePointer, CUdeviceptr *, void *, unsigned)           \
    CALL(cuMemcpy, CUdeviceptr, CUdeviceptr, size_t)                           \
    CALL(cuMemcpyHtoD, CUdeviceptr, const void *, size_t)                      \
    CALL(cuMemcpyDtoH, void *, CUdeviceptr, size_t)                            \
    CALL(cuMemcpyDtoD, CUdeviceptr, CUdeviceptr, size_t)                       \
    CALL(cuMemsetD8, CUdeviceptr, unsigned char, size_t)                       \
    CALL(cuStreamCreate, CUstream *, unsigned)                                 \
    CALL(cuStreamDestroy, CUstream)                                            \
    CALL(cuStreamSynchronize, CUstream)                                        \
    CALL(cuEventCreate, CUevent *, unsigned)                                   \
    CALL(cuEventDestroy, CUevent)                                              \
    CALL(cuEventQuery, CUevent)                                                \
    CALL(cuEventRecord, CUevent, CUstream)

struct Driver {
#define SIM_POINTER(_name, ...) CUresult (*p_##_name)(__VA_ARGS__) = nullptr;
    // The names are pasted before cuda.h can add versions to them.
    SIM_DRIVER_CALLS(SIM_POINTER)
#undef SIM_POINTER
    // The error if there is no driver.
    cudaError_t error = cudaSuccess;
};

const Driver &driver();

// Returns the driver, and makes the primary context of the thread's device
// current, as the runtime does at the first call that needs one.
cudaError_t begin(const Driver **out);
cudaError_t begin_without_context(const Driver **out);

cudaError_t use_device(const Driver &d, int device);
int current_device(const Driver &d);
void device_was_reset(int device);
cudaError_t take_last_error();

// Converts the error to the runtime's, and stores it for cudaGetLastError.
cudaError_t finish(CUresult result);
cudaError_t finish(cudaError_t result);

} // namespace ucx_ib_dmabuf::sim

// The body of a runtime call that is one driver call, with a context.
#define SIM_FORWARD(_call, ...)                                                \
    const ucx_ib_dmabuf::sim::Driver *d;                                       \
    cudaError_t error = ucx_ib_dmabuf::sim::begin(&d);                         \
    if (error != cudaSuccess)                                                  \
        return ucx_ib_dmabuf::sim::finish(error);                              \
    return ucx_ib_dmabuf::sim::finish(d->p_##_call(__VA_ARGS__))

// As the driver's SIM_ENTRY, without counting: the driver's calls are counted.
#define SIM_RUNTIME(_type, _name, ...)                                         \
    static _type body_##_name(__VA_ARGS__);                                    \
    extern "C" {                                                               \
    extern SIM_HIDDEN _type (*const sim_ptr_##_name)(__VA_ARGS__);             \
    __attribute__((used))                                                      \
    _type (*const sim_ptr_##_name)(__VA_ARGS__) = body_##_name;                \
    }                                                                          \
    SIM_TRAMPOLINE(_name)                                                      \
    static _type body_##_name(__VA_ARGS__)

// A runtime call that is a driver call, with a context: the call, its arguments
// in brackets, then the parameters.
#define SIM_RUNTIME_FORWARD(_name, _call, _arguments, ...)                     \
    SIM_RUNTIME(cudaError_t, _name, __VA_ARGS__)                               \
    {                                                                          \
        const ucx_ib_dmabuf::sim::Driver *d;                                   \
        cudaError_t error = ucx_ib_dmabuf::sim::begin(&d);                     \
        return ucx_ib_dmabuf::sim::finish(                                     \
            error != cudaSuccess ? error                                       \
                                 : cudaError_t(d->p_##_call _arguments));      \
    }
