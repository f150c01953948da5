// SPDX-License-Identifier: BSD-3-Clause
//
// Queries about an address. Attributes need no current context.
#include "calls.h"
#include "context.h"
#include "machine.h"

#include <utility>

namespace ucx_ib_dmabuf::sim {
namespace {

// The driver reports mapped host memory as host memory, though the CPU needs
// cuMemSetAccess to touch it (Open MPI, pull request 12751).
bool on_host(const Allocation &found)
{
    return !found.block || found.block->is_on_host();
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

// Returns the start of an address's mapping.
CUdeviceptr mapping_of(CUdeviceptr address, const Allocation &found)
{
    return !found.block ? found.base
           : found.kind == Kind::pool
               ? address - (address - found.block->base) % pool_chunk
               : found.block->base;
}

// NVIDIA's documentation: "not necessarily the mapped region, but the mappable
// address range".
std::pair<CUdeviceptr, uint64_t> range_of(CUdeviceptr address,
                                          const Allocation &found)
{
    if (found.kind == Kind::vmm)
        return *memory().reservation(address);
    return {found.base, found.size};
}

template <typename T>
uint64_t value_of(T *pointer)
{
    return reinterpret_cast<uint64_t>(pointer);
}

// Returns the value of an attribute, or nothing if it does not apply.
std::optional<uint64_t> attribute(CUpointer_attribute which,
                                  CUdeviceptr address, const Allocation &found)
{
    const bool is_managed = found.kind == Kind::managed;
    const bool is_host    = on_host(found) && !is_managed;
    switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return value_of(found.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return found.sync_memops;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return found.id;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return is_managed;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return found.block && found.block->is_on_host()
                   ? uint64_t(CU_DEVICE_CPU)
                   : uint64_t(found.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return found.kind == Kind::device;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return range_of(address, found).first;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return range_of(address, found).second;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return found.kind == Kind::vmm
                   ? found.block->handle->properties.requestedHandleTypes
                   : 0;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return rdma_capable(found);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return value_of(found.pool);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return mapping_of(address, found);
    default:
        return std::nullopt;
    }
}

// Stores an attribute of 4 or 8 bytes.
void store(void *data, CUpointer_attribute which, uint64_t value)
{
    switch (int(which)) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *static_cast<uint32_t *>(data) = uint32_t(value);
        break;
    default:
        *static_cast<uint64_t *>(data) = value;
    }
}

CUresult query(void *data, CUpointer_attribute which, CUdeviceptr address)
{
    std::optional<uint64_t> value;
    if (Allocation *found = memory().find(address))
        value = attribute(which, address, *found);
    else if (auto range = memory().reservation(address))
        // A reserved address without memory has no other attribute.
        value = which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
                    ? std::optional(range->first)
                : which == CU_POINTER_ATTRIBUTE_RANGE_SIZE
                    ? std::optional<CUdeviceptr>(range->second)
                    : std::nullopt;
    else if (settings().coherent && address)
        // The GPU reads all host memory. No source tells whether a query of any
        // address succeeds; this is the harder guess.
        value = which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
                    ? uint64_t(CU_DEVICE_INVALID)
                    : 0;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    store(data, which, *value);
    return CUDA_SUCCESS;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(driver, cuPointerGetAttribute, void *data, CUpointer_attribute which,
          CUdeviceptr address)
{
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    return query(data, which, address);
}

SIM_ENTRY(driver, cuPointerGetAttributes, unsigned count,
          CUpointer_attribute *which, void **data, CUdeviceptr address)
{
    if (!count || !which || !data)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    for (unsigned i = 0; i < count; ++i) {
        CUresult result = query(data[i], which[i], address);
        if (result == CUDA_ERROR_INVALID_VALUE)
            store(data[i], which[i],
                  which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
                      ? uint64_t(CU_DEVICE_INVALID)
                      : 0);
        else if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuPointerSetAttribute, const void *data,
          CUpointer_attribute which, CUdeviceptr address)
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
SIM_ENTRY(driver, cuMemRangeGetAttribute, void *data, size_t size,
          CUmem_range_attribute which, CUdeviceptr address, size_t length)
{
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!data || !length || !found || found->kind != Kind::managed ||
        found->base + found->size - address < length)
        return CUDA_ERROR_INVALID_VALUE;
    if (which != CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY &&
        which != CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION &&
        which != CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (size != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int *>(data) =
        which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size,
          CUdeviceptr address)
{
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    if (CUresult error = need_context_of(found->device, CUDA_ERROR_NOT_FOUND))
        return error;
    if (base)
        *base = found->base;
    if (size)
        *size = found->size;
    return CUDA_SUCCESS;
}
