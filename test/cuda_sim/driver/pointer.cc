// SPDX-License-Identifier: BSD-3-Clause
//
// Queries about an address. Attributes need no current context.
#include "calls.h"
#include "context.h"
#include "settings.h"

#include <utility>

namespace ucx_ib_dmabuf::sim {
namespace {

template <typename T>
CUresult give(void *data, T value)
{
    *static_cast<T *>(data) = value;
    return CUDA_SUCCESS;
}

bool rdma_capable(const Allocation &found)
{
    switch (found.kind) {
    case Kind::device:
        return true;
    case Kind::vmm:
        return found.block->handle->properties.allocFlags.gpuDirectRDMACapable;
    default: // also stream-ordered memory, which can be exported nevertheless
        return false;
    }
}

CUresult mapping_attribute(void *data, CUpointer_attribute which,
                           CUdeviceptr address, const Allocation &found)
{
    const Block *block = found.block;
    uint64_t size      = block ? block->size : found.size;
    CUdeviceptr base   = block ? block->base : found.base;
    if (found.kind == Kind::pool) {
        base = address - (address - base) % pool_chunk;
        size = pool_chunk;
    }
    switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return give<size_t>(data, size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return give<CUdeviceptr>(data, base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return give<unsigned long long>(data, block ? block->id : found.id);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

// NVIDIA's documentation: "not necessarily the mapped region, but the mappable
// address range".
std::pair<CUdeviceptr, uint64_t> range_of(CUdeviceptr address,
                                          const Allocation &found)
{
    if (found.kind == Kind::vmm && settings().range_reservation)
        return *memory().reservation(address);
    return {found.base, found.size};
}

CUresult attribute(void *data, CUpointer_attribute which, CUdeviceptr address,
                   const Allocation &found)
{
    bool is_host = found.kind == Kind::host || found.kind == Kind::registered;
    bool is_managed = found.kind == Kind::managed;
    switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return give<CUcontext>(data, found.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return give<unsigned>(data, is_host ? CU_MEMORYTYPE_HOST
                                            : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return give<CUdeviceptr>(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host && !is_managed)
            return CUDA_ERROR_INVALID_VALUE;
        return give<CUdeviceptr>(data, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return give<unsigned>(data, found.sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return give<unsigned long long>(data, found.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return give<unsigned>(data, is_managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return give<int>(data, found.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return give<unsigned>(data, found.kind == Kind::device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return give<CUdeviceptr>(data, range_of(address, found).first);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return give<size_t>(data, range_of(address, found).second);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return give<unsigned>(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return give<unsigned long long>(
            data, found.kind == Kind::vmm
                      ? found.block->handle->properties.requestedHandleTypes
                      : 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return give<unsigned>(data, rdma_capable(found));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return give<unsigned>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return give<CUmemoryPool>(data, found.pool);
    default:
        return mapping_attribute(data, which, address, found);
    }
}

// A reserved address without memory has few attributes.
CUresult reserved_attribute(void *data, CUpointer_attribute which,
                            CUdeviceptr address)
{
    auto range = memory().reservation(address);
    if (!range)
        return unknown_address(address, CUDA_ERROR_INVALID_VALUE);
    switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return give<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return give<CUdeviceptr>(data, range->first);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return give<size_t>(data, range->second);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

// Stores cuPointerGetAttributes' value for an attribute that does not apply.
void nothing(void *data, CUpointer_attribute which)
{
    switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        give<int>(data, CU_DEVICE_INVALID);
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        give<unsigned>(data, 0);
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        break;
    default:
        give<uint64_t>(data, 0);
    }
}

CUresult query(void *data, CUpointer_attribute which, CUdeviceptr address)
{
    Allocation *found = memory().find(address);
    return found ? attribute(data, which, address, *found)
                 : reserved_attribute(data, which, address);
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(cuPointerGetAttribute, void *data, CUpointer_attribute which,
          CUdeviceptr address)
{
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    return query(data, which, address);
}

SIM_ENTRY(cuPointerGetAttributes, unsigned count, CUpointer_attribute *which,
          void **data, CUdeviceptr address)
{
    if (!count || !which || !data)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    for (unsigned i = 0; i < count; ++i) {
        if (which[i] < 1 || which[i] > 21)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult result = query(data[i], which[i], address);
        if (result == CUDA_ERROR_INVALID_VALUE)
            nothing(data[i], which[i]);
        else if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuPointerSetAttribute, const void *data, CUpointer_attribute which,
          CUdeviceptr address)
{
    if (!data || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    if (found->kind == Kind::vmm || found->kind == Kind::pool)
        return CUDA_ERROR_NOT_SUPPORTED;
    found->sync_memops = *static_cast<const unsigned *>(data) != 0;
    return CUDA_SUCCESS;
}

// For managed memory only. It reports no advice or prefetch, as there are no
// calls for that.
SIM_ENTRY(cuMemRangeGetAttribute, void *data, size_t size,
          CUmem_range_attribute which, CUdeviceptr address, size_t length)
{
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!data || !length || !found || found->kind != Kind::managed ||
        found->base + found->size - address < length)
        return CUDA_ERROR_INVALID_VALUE;
    switch (int(which)) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        return size == 4 ? give<int>(data, 0) : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        return size == 4 ? give<int>(data, CU_DEVICE_INVALID)
                         : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

SIM_ENTRY(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size,
          CUdeviceptr address)
{
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(address);
    if (CUresult error =
            found ? need_context_of(found->device, CUDA_ERROR_NOT_FOUND)
                  : unknown_address(address, CUDA_ERROR_NOT_FOUND))
        return error;
    if (base)
        *base = found->base;
    if (size)
        *size = found->size;
    return CUDA_SUCCESS;
}
