// SPDX-License-Identifier: BSD-3-Clause
//
// Stream-ordered memory. An allocation is there, and a free has happened, when
// the call returns. The memory stays with its pool until a program waits for
// work (beyond the release threshold) or trims the pool.
#include "calls.h"
#include "context.h"
#include "settings.h"
#include "stream.h"

#include <set>

struct CUmemPoolHandle_st {
    CUmemPoolHandle_st(int its_device)
        : device(its_device),
          heap(its_device, ucx_ib_dmabuf::sim::Kind::pool, 32ull << 20)
    {
    }

    const int device;
    ucx_ib_dmabuf::sim::Heap heap;
    uint64_t threshold = 0; // bytes kept when a program waits
    uint64_t high_held = 0;
    uint64_t high_used = 0;
    int reuse[3]       = {1, 1, 1};
};

namespace ucx_ib_dmabuf::sim {
namespace {

// Guarded by the lock of Memory, as the pools are.
struct Pools {
    std::set<CUmemoryPool> all;
    std::vector<CUmemoryPool> standard, current; // by device

    Pools()
    {
        for (uint64_t i = 0; i < settings().devices; ++i)
            standard.push_back(new CUmemPoolHandle_st(int(i)));
        all.insert(standard.begin(), standard.end());
        current = standard;
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

CUresult allocate(CUdeviceptr *out, uint64_t size, CUmemoryPool pool)
{
    Allocation *made = pool->heap.allocate(size);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->pool      = pool;
    pool->high_held = std::max(pool->high_held, pool->heap.held());
    pool->high_used = std::max(pool->high_used, pool->heap.used());
    *out            = made->base;
    return CUDA_SUCCESS;
}

CUresult allocate_async(CUdeviceptr *out, uint64_t size, CUstream stream)
{
    CUresult result = need_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    return allocate(out, size, pools().current[size_t(stream_device(stream))]);
}

CUresult allocate_from(CUdeviceptr *out, uint64_t size, CUmemoryPool pool,
                       CUstream stream)
{
    CUresult result = need_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    std::lock_guard guard(memory().lock);
    if (!out || !size || !is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, size, pool);
}

CUresult free_async(CUdeviceptr address, CUstream stream)
{
    CUresult result = need_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    std::lock_guard guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!found || found->kind != Kind::pool || found->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    found->block->heap->free(*found, true);
    return CUDA_SUCCESS;
}

CUresult pool_of(CUmemoryPool *out, CUdevice device,
                 std::vector<CUmemoryPool> &from)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::shared_lock guard(memory().lock);
    *out = from[size_t(device)];
    return CUDA_SUCCESS;
}

// The three switches of reuse come first among the attributes.
int *reuse_of(CUmemoryPool pool, CUmemPool_attribute which)
{
    return which >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                   which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
               ? &pool->reuse[which - 1]
               : nullptr;
}

uint64_t number_of(CUmemoryPool pool, CUmemPool_attribute which, bool &known)
{
    known = true;
    switch (int(which)) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return pool->heap.held();
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return pool->high_held;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return pool->heap.used();
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return pool->high_used;
    default:
        known = false;
        return 0;
    }
}

CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute which, void *data)
{
    if (int *reuse = reuse_of(pool, which)) {
        *reuse = *static_cast<int *>(data);
        return CUDA_SUCCESS;
    }
    uint64_t value = *static_cast<cuuint64_t *>(data);
    switch (int(which)) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (value) // can only be set back
            return CUDA_ERROR_INVALID_VALUE;
        (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool->high_used
                                                : pool->high_held) = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
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
SIM_ENTRY_BOTH(cuMemAllocAsync, _ptsz, allocate_async(out, size, stream),
     CUdeviceptr *out, size_t size, CUstream stream)
SIM_ENTRY_BOTH(cuMemAllocFromPoolAsync, _ptsz,
     allocate_from(out, size, pool, stream),
     CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
SIM_ENTRY_BOTH(cuMemFreeAsync, _ptsz, free_async(address, stream),
     CUdeviceptr address, CUstream stream)
// clang-format on

SIM_ENTRY(cuMemPoolCreate, CUmemoryPool *out, const CUmemPoolProps *properties)
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

// The real driver waits for the last allocation; here it goes with its pool.
SIM_ENTRY(cuMemPoolDestroy, CUmemoryPool pool)
{
    std::lock_guard guard(memory().lock);
    if (!is_pool(pool) || pools().standard[size_t(pool->device)] == pool)
        return CUDA_ERROR_INVALID_VALUE;
    auto &current = pools().current[size_t(pool->device)];
    if (current == pool)
        current = pools().standard[size_t(pool->device)];
    pool->heap.clear();
    pools().all.erase(pool);
    delete pool;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuMemPoolTrimTo, CUmemoryPool pool, size_t keep)
{
    std::lock_guard guard(memory().lock);
    if (!is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    pool->heap.trim(keep);
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuMemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute which,
          void *data)
{
    std::lock_guard guard(memory().lock);
    if (!is_pool(pool) || !data)
        return CUDA_ERROR_INVALID_VALUE;
    return set_attribute(pool, which, data);
}

SIM_ENTRY(cuMemPoolGetAttribute, CUmemoryPool pool, CUmemPool_attribute which,
          void *data)
{
    std::shared_lock guard(memory().lock);
    if (!is_pool(pool) || !data)
        return CUDA_ERROR_INVALID_VALUE;
    if (int *reuse = reuse_of(pool, which)) {
        *static_cast<int *>(data) = *reuse;
        return CUDA_SUCCESS;
    }
    bool known;
    uint64_t value = number_of(pool, which, known);
    if (!known)
        return CUDA_ERROR_INVALID_VALUE;
    *static_cast<cuuint64_t *>(data) = value;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc *access,
          size_t count)
{
    std::shared_lock guard(memory().lock);
    if (!is_pool(pool) || (count && !access))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (!valid_device(access[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        // No device reaches another one's memory.
        if (access[i].location.id != pool->device)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuDeviceGetDefaultMemPool, CUmemoryPool *out, CUdevice device)
{
    return pool_of(out, device, pools().standard);
}

SIM_ENTRY(cuDeviceGetMemPool, CUmemoryPool *out, CUdevice device)
{
    return pool_of(out, device, pools().current);
}

SIM_ENTRY(cuDeviceSetMemPool, CUdevice device, CUmemoryPool pool)
{
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard guard(memory().lock);
    if (!is_pool(pool) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    pools().current[size_t(device)] = pool;
    return CUDA_SUCCESS;
}
