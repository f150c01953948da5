// SPDX-License-Identifier: BSD-3-Clause
//
// Stream-ordered memory. Allocations and frees are complete when the call
// returns. A pool keeps freed memory up to its release threshold, which is zero
// at first, until it is trimmed. It keeps the rest until a program waits for
// work.
#include "../compat.h"
#include "calls.h"
#include "context.h"
#include "machine.h"
#include "stream.h"

#include <set>

struct CUmemPoolHandle_st {
    explicit CUmemPoolHandle_st(int its_device)
        : device(its_device), heap(ucx_ib_dmabuf::sim::Kind::pool, its_device,
                                   ucx_ib_dmabuf::sim::pool_chunk)
    {
    }

    const int device;
    uint64_t threshold = 0;
    ucx_ib_dmabuf::sim::Heap heap;
};

namespace ucx_ib_dmabuf::sim {
namespace {

// Guarded by the lock of Memory, as the pools are.
struct Pools {
    std::set<CUmemoryPool> all;
    std::vector<CUmemoryPool> standard; // by device

    Pools()
    {
        for (uint64_t i = 0; i < settings().devices; ++i)
            standard.push_back(new CUmemPoolHandle_st(int(i)));
        all.insert(standard.begin(), standard.end());
    }
};

Pools &pools()
{
    static Pools &all = *new Pools();
    return all;
}

bool is_pool(CUmemoryPool pool)
{
    return pools().all.count(pool) != 0;
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
    return pools().standard[size_t(stream_device(stream))];
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

// Returns the release threshold, which is the only attribute, or null. Requires
// the lock.
uint64_t *attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    return is_pool(pool) && which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
               ? &pool->threshold
               : nullptr;
}

CUresult default_pool(CUmemoryPool *out, CUdevice device)
{
    if (CUresult error = check(out, device))
        return error;
    *out = pools().standard[size_t(device)];
    return CUDA_SUCCESS;
}

} // namespace

void clear_pools(int device)
{
    for (CUmemoryPool pool : pools().all) {
        if (pool->device == device)
            pool->heap.clear();
    }
}

void synchronized()
{
    std::lock_guard guard(memory().lock);
    for (CUmemoryPool pool : pools().all)
        pool->heap.trim(pool->threshold);
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

SIM_ENTRY(driver, cuMemPoolCreate, CUmemoryPool *out,
          const CUmemPoolProps *properties)
{
    if (!out || !properties ||
        properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !valid_device(properties->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    std::lock_guard guard(memory().lock);
    *out = new CUmemPoolHandle_st(properties->location.id);
    pools().all.insert(*out);
    return CUDA_SUCCESS;
}

// The real driver waits until all memory is freed; this one frees it.
SIM_ENTRY(driver, cuMemPoolDestroy, CUmemoryPool pool)
{
    std::lock_guard guard(memory().lock);
    if (!is_pool(pool) || pools().standard[size_t(pool->device)] == pool)
        return CUDA_ERROR_INVALID_VALUE;
    pool->heap.clear();
    pools().all.erase(pool);
    delete pool;
    return CUDA_SUCCESS;
}

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

SIM_ENTRY(driver, cuMemGetDefaultMemPool, CUmemoryPool *out,
          CUmemLocation *location, CUmemAllocationType type)
{
    if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return default_pool(out, location->id);
}

SIM_ENTRY(driver, cuMemPoolGetAttribute, CUmemoryPool pool,
          CUmemPool_attribute which, void *value)
{
    std::shared_lock guard(memory().lock);
    const uint64_t *found = attribute(pool, which);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *static_cast<uint64_t *>(value) = *found;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemPoolSetAttribute, CUmemoryPool pool,
          CUmemPool_attribute which, void *value)
{
    std::lock_guard guard(memory().lock);
    uint64_t *found = attribute(pool, which);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *found = *static_cast<uint64_t *>(value);
    return CUDA_SUCCESS;
}

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
