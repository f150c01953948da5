// SPDX-License-Identifier: BSD-3-Clause
//
// Stream-ordered memory. Allocations and frees are complete when the call
// returns. There are only the default pools. A pool keeps freed memory until it
// is trimmed, or until a program waits for work.
#include "../compat.h"
#include "calls.h"
#include "context.h"
#include "machine.h"
#include "stream.h"

#include <algorithm>

struct CUmemPoolHandle_st {
    explicit CUmemPoolHandle_st(int device)
        : heap(ucx_ib_dmabuf::sim::Kind::pool, device,
               ucx_ib_dmabuf::sim::pool_chunk)
    {
    }

    ucx_ib_dmabuf::sim::Heap heap;
};

namespace ucx_ib_dmabuf::sim {
namespace {

// By device. The lock of Memory guards them.
const std::vector<CUmemoryPool> &pools()
{
    static const auto &all = *[] {
        auto *made = new std::vector<CUmemoryPool>;
        for (uint64_t i = 0; i < settings().devices; ++i)
            made->push_back(new CUmemPoolHandle_st(int(i)));
        return made;
    }();
    return all;
}

bool is_pool(CUmemoryPool pool)
{
    return std::count(pools().begin(), pools().end(), pool) != 0;
}

CUresult allocate_from(CUmemoryPool pool, CUdeviceptr *out, uint64_t size)
{
    std::lock_guard guard(memory().lock);
    if (!out || !size || !is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    Allocation *made = pool->heap.allocate(size);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->pool = pool;
    *out       = made->base;
    return CUDA_SUCCESS;
}

CUmemoryPool standard_pool(CUstream stream)
{
    return pools()[size_t(stream_device(stream))];
}

CUresult free_async(CUdeviceptr address)
{
    std::lock_guard guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!found || found->kind != Kind::pool || found->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    found->block->heap->free(*found, true);
    return CUDA_SUCCESS;
}

CUresult default_pool(CUmemoryPool *out, CUdevice device)
{
    if (CUresult error = check(out, device))
        return error;
    *out = pools()[size_t(device)];
    return CUDA_SUCCESS;
}

} // namespace

void clear_pools(int device)
{
    pools()[size_t(device)]->heap.clear();
}

void synchronized()
{
    std::lock_guard guard(memory().lock);
    for (CUmemoryPool pool : pools())
        pool->heap.trim(0);
}

} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

// clang-format off
SIM_ENTRY_BOTH(stream, cuMemAllocAsync, _ptsz,
               allocate_from(standard_pool(stream), out, size),
               CUdeviceptr *out, size_t size, CUstream stream)
SIM_ENTRY_BOTH(stream, cuMemAllocFromPoolAsync, _ptsz,
               allocate_from(pool, out, size),
               CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream)
SIM_ENTRY_BOTH(stream, cuMemFreeAsync, _ptsz, free_async(address),
               CUdeviceptr address, CUstream)
// clang-format on

// A default pool cannot be destroyed.
SIM_ENTRY_IS(driver, cuMemPoolDestroy, CUDA_ERROR_INVALID_VALUE, CUmemoryPool)

SIM_ENTRY(driver, cuMemPoolTrimTo, CUmemoryPool pool, size_t keep)
{
    std::lock_guard guard(memory().lock);
    if (!is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    pool->heap.trim(keep);
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(driver, cuDeviceGetDefaultMemPool, default_pool(out, device),
             CUmemoryPool *out, CUdevice device)

// Pools of other processes: UCX 1.22 and programs look these calls up.
SIM_ENTRY_IS(driver, cuMemPoolExportToShareableHandle, CUDA_ERROR_NOT_SUPPORTED,
             void *, CUmemoryPool, CUmemAllocationHandleType,
             unsigned long long)
SIM_ENTRY_IS(driver, cuMemPoolImportFromShareableHandle,
             CUDA_ERROR_NOT_SUPPORTED, CUmemoryPool *, void *,
             CUmemAllocationHandleType, unsigned long long)
SIM_ENTRY_IS(driver, cuMemPoolExportPointer, CUDA_ERROR_NOT_SUPPORTED,
             CUmemPoolPtrExportData *, CUdeviceptr)
SIM_ENTRY_IS(driver, cuMemPoolImportPointer, CUDA_ERROR_NOT_SUPPORTED,
             CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *)
SIM_ENTRY_IS(driver, cuMemPoolSetAccess, CUDA_ERROR_NOT_SUPPORTED, CUmemoryPool,
             const CUmemAccessDesc *, size_t)
