// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of UCX 1.22 and of programs that are there to be found, and say that
// they are not supported, or do nothing where nothing is right.
#include "calls.h"
#include "context.h"

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(cuCtxSetFlags, unsigned flags)
{
    CUcontext context;
    CUresult result = need_context(&context);
    if (result == CUDA_SUCCESS)
        context->flags = flags;
    return result;
}

SIM_ENTRY(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuMemPoolExportToShareableHandle, void *, CUmemoryPool,
          CUmemAllocationHandleType, unsigned long long)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_ENTRY(cuMemPoolImportFromShareableHandle, CUmemoryPool *, void *,
          CUmemAllocationHandleType, unsigned long long)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_ENTRY(cuMemPoolExportPointer, CUmemPoolPtrExportData *, CUdeviceptr)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_ENTRY(cuMemPoolImportPointer, CUdeviceptr *, CUmemoryPool,
          CUmemPoolPtrExportData *)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_ENTRY(cuFlushGPUDirectRDMAWrites, CUflushGPUDirectRDMAWritesTarget,
          CUflushGPUDirectRDMAWritesScope)
{
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuModuleLoadData, CUmodule *, const void *)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_ENTRY(cuModuleUnload, CUmodule)
{
    return CUDA_ERROR_INVALID_HANDLE;
}

SIM_ENTRY(cuModuleGetGlobal_v2, CUdeviceptr *, size_t *, CUmodule, const char *)
{
    return CUDA_ERROR_INVALID_HANDLE;
}

SIM_ENTRY(cuLibraryUnload, CUlibrary)
{
    return CUDA_ERROR_INVALID_HANDLE;
}

SIM_ENTRY(cuLibraryGetGlobal, CUdeviceptr *, size_t *, CUlibrary, const char *)
{
    return CUDA_ERROR_INVALID_HANDLE;
}
