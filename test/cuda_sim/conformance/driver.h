// SPDX-License-Identifier: BSD-3-Clause
//
// The Driver API of whatever libcuda.so.1 there is, real or simulated. Nothing
// of CUDA is linked with.
#pragma once

#include "../compat.h"

#include <cuda.h>

namespace ucx_ib_dmabuf::conformance {

#define CONFORMANCE_CALLS(CALL)                                                \
    CALL(cuInit, unsigned)                                                     \
    CALL(cuDriverGetVersion, int *)                                            \
    CALL(cuDeviceGetCount, int *)                                              \
    CALL(cuDeviceGetName, char *, int, CUdevice)                               \
    CALL(cuDeviceGetAttribute, int *, CUdevice_attribute, CUdevice)            \
    CALL(cuDeviceGetDefaultMemPool, CUmemoryPool *, CUdevice)                  \
    CALL(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                      \
    CALL(cuDevicePrimaryCtxRelease, CUdevice)                                  \
    CALL(cuDevicePrimaryCtxReset, CUdevice)                                    \
    CALL(cuCtxCreate_v2, CUcontext *, unsigned, CUdevice)                      \
    CALL(cuCtxDestroy, CUcontext)                                              \
    CALL(cuCtxSetCurrent, CUcontext)                                           \
    CALL(cuCtxGetCurrent, CUcontext *)                                         \
    CALL(cuCtxGetDevice, CUdevice *)                                           \
    CALL(cuCtxGetId, CUcontext, unsigned long long *)                          \
    CALL(cuCtxSynchronize)                                                     \
    CALL(cuMemGetInfo, size_t *, size_t *)                                     \
    CALL(cuMemAlloc, CUdeviceptr *, size_t)                                    \
    CALL(cuMemAllocPitch, CUdeviceptr *, size_t *, size_t, size_t, unsigned)   \
    CALL(cuMemAllocManaged, CUdeviceptr *, size_t, unsigned)                   \
    CALL(cuMemFree, CUdeviceptr)                                               \
    CALL(cuMemAllocHost, void **, size_t)                                      \
    CALL(cuMemFreeHost, void *)                                                \
    CALL(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)                     \
    CALL(cuMemFreeAsync, CUdeviceptr, CUstream)                                \
    CALL(cuMemPoolTrimTo, CUmemoryPool, size_t)                                \
    CALL(cuMemGetAddressRange, CUdeviceptr *, size_t *, CUdeviceptr)           \
    CALL(cuPointerGetAttribute, void *, CUpointer_attribute, CUdeviceptr)      \
    CALL(cuPointerGetAttributes, unsigned, CUpointer_attribute *, void **,     \
         CUdeviceptr)                                                          \
    CALL(cuPointerSetAttribute, const void *, CUpointer_attribute,             \
         CUdeviceptr)                                                          \
    CALL(cuMemGetHandleForAddressRange, void *, CUdeviceptr, size_t,           \
         CUmemRangeHandleType, unsigned long long)                             \
    CALL(cuMemGetAllocationGranularity, size_t *, const CUmemAllocationProp *, \
         CUmemAllocationGranularity_flags)                                     \
    CALL(cuMemAddressReserve, CUdeviceptr *, size_t, size_t, CUdeviceptr,      \
         unsigned long long)                                                   \
    CALL(cuMemAddressFree, CUdeviceptr, size_t)                                \
    CALL(cuMemCreate, CUmemGenericAllocationHandle *, size_t,                  \
         const CUmemAllocationProp *, unsigned long long)                      \
    CALL(cuMemRelease, CUmemGenericAllocationHandle)                           \
    CALL(cuMemMap, CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,  \
         unsigned long long)                                                   \
    CALL(cuMemUnmap, CUdeviceptr, size_t)                                      \
    CALL(cuMemSetAccess, CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) \
    CALL(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *, void *)  \
    CALL(cuMemcpyHtoD, CUdeviceptr, const void *, size_t)                      \
    CALL(cuMemcpyDtoH, void *, CUdeviceptr, size_t)                            \
    CALL(cuMemcpyDtoHAsync, void *, CUdeviceptr, size_t, CUstream)             \
    CALL(cuMemsetD8, CUdeviceptr, unsigned char, size_t)                       \
    CALL(cuStreamCreate, CUstream *, unsigned)                                 \
    CALL(cuStreamDestroy, CUstream)                                            \
    CALL(cuStreamSynchronize, CUstream)                                        \
    CALL(cuStreamBeginCapture, CUstream, CUstreamCaptureMode)                  \
    CALL(cuStreamEndCapture, CUstream, CUgraph *)                              \
    CALL(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *)             \
    CALL(cuGraphDestroy, CUgraph)

// The entry points, by the names that programs use for them.
struct Driver {
#define CONFORMANCE_POINTER(_name, ...)                                        \
    CUresult (*_name##_)(__VA_ARGS__) = nullptr;
    CONFORMANCE_CALLS(CONFORMANCE_POINTER)
#undef CONFORMANCE_POINTER
    bool simulated = false;
};

// Load and initialise; says why not on failure, and returns false.
bool load(Driver &driver);

extern Driver cu;

} // namespace ucx_ib_dmabuf::conformance
