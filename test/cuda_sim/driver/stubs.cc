// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that UCX 1.22 and programs look up. They return that they are not
// supported, or succeed if nothing is to be done.
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

SIM_ENTRY_IS(cuMemPoolExportToShareableHandle, CUDA_ERROR_NOT_SUPPORTED, void *,
             CUmemoryPool, CUmemAllocationHandleType, unsigned long long)
SIM_ENTRY_IS(cuMemPoolImportFromShareableHandle, CUDA_ERROR_NOT_SUPPORTED,
             CUmemoryPool *, void *, CUmemAllocationHandleType,
             unsigned long long)
SIM_ENTRY_IS(cuMemPoolExportPointer, CUDA_ERROR_NOT_SUPPORTED,
             CUmemPoolPtrExportData *, CUdeviceptr)
SIM_ENTRY_IS(cuMemPoolImportPointer, CUDA_ERROR_NOT_SUPPORTED, CUdeviceptr *,
             CUmemoryPool, CUmemPoolPtrExportData *)
// For pools of other processes.
SIM_ENTRY_IS(cuMemPoolSetAccess, CUDA_ERROR_NOT_SUPPORTED, CUmemoryPool,
             const CUmemAccessDesc *, size_t)
SIM_ENTRY_IS(cuFlushGPUDirectRDMAWrites, CUDA_SUCCESS,
             CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope)

// NVIDIA documents no table; cudart asks for some before cuInit.
SIM_ENTRY_ANYTIME(cuGetExportTable, const void **, const CUuuid *)
{
    return CUDA_ERROR_INVALID_VALUE;
}
