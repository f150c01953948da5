// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual memory management: addresses, physical memory, and mappings of memory
// to addresses. No call needs a context.
#include "../compat.h"
#include "calls.h"
#include "context.h"

#include <cstring>
#include <vector>

namespace ucx_ib_dmabuf::sim {
namespace {

bool whole_blocks(uint64_t value)
{
    return value % block_size == 0;
}

bool valid_properties(const CUmemAllocationProp *p)
{
    return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           ((p->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
             valid_device(p->location.id)) ||
            (p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
             (p->location.id == 0 || p->location.id == 1)));
}

int device_of(const CUmemLocation &location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : 0;
}

// Returns the mappings that make up exactly this range, or none.
std::vector<Block *> mappings(CUdeviceptr address, uint64_t size)
{
    std::vector<Block *> all;
    while (size) {
        Block *block = memory().block_at(address);
        if (!block || block->kind != Kind::vmm || block->base != address ||
            block->size > size)
            return {};
        all.push_back(block);
        address += block->size;
        size -= block->size;
    }
    return all;
}

bool unmapped(CUdeviceptr address, uint64_t size)
{
    auto next = memory().blocks.lower_bound(address);
    return !memory().block_at(address) &&
           (next == memory().blocks.end() || next->first >= address + size);
}

std::shared_ptr<PhysicalHandle> handle_of(uint64_t number)
{
    auto one = memory().handles.find(number);
    return one == memory().handles.end() ? nullptr : one->second;
}

void map(CUdeviceptr address, uint64_t size,
         const std::shared_ptr<PhysicalHandle> &handle)
{
    Block &block = memory().blocks[address];
    block = {Kind::vmm, device_of(handle->properties.location), address, size,
             handle->extent};
    block.handle   = handle;
    block.readable = block.writable = 0;
    memory().enter(block, address, size);
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(driver, cuMemGetAllocationGranularity, size_t *out,
          const CUmemAllocationProp *properties,
          CUmemAllocationGranularity_flags flags)
{
    static const CUmemAllocationProp none{}; // from UCX's tests
    const bool is_none = properties && !memcmp(properties, &none, sizeof(none));
    if (!out || !(is_none || valid_properties(properties)) ||
        (flags != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         flags != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = block_size;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemAddressReserve, CUdeviceptr *out, size_t size,
          size_t alignment, CUdeviceptr, unsigned long long flags)
{
    if (!out || !size || !whole_blocks(size) || flags ||
        (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    CUdeviceptr base =
        memory().reserve(size, std::max<uint64_t>(alignment, block_size));
    if (!base)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory().reservations[base] = size;
    *out                        = base;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemAddressFree, CUdeviceptr address, size_t size)
{
    std::lock_guard guard(memory().lock);
    auto one = memory().reservations.find(address);
    if (one == memory().reservations.end() || one->second != size ||
        !unmapped(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    memory().reservations.erase(one);
    memory().release(address, size);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemCreate, CUmemGenericAllocationHandle *out, size_t size,
          const CUmemAllocationProp *properties, unsigned long long flags)
{
    if (!out || !size || !whole_blocks(size) || flags ||
        !valid_properties(properties))
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
        properties->requestedHandleTypes !=
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    std::lock_guard guard(memory().lock);
    auto extent = memory().make_extent(device_of(properties->location), size);
    if (!extent)
        return CUDA_ERROR_OUT_OF_MEMORY;
    auto handle = std::make_shared<PhysicalHandle>(
        PhysicalHandle{std::move(extent), *properties, memory().next_id(), 1});
    memory().handles[handle->number] = handle;
    *out                             = handle->number;
    return CUDA_SUCCESS;
}

// The memory exists as long as it is mapped.
SIM_ENTRY(driver, cuMemRelease, CUmemGenericAllocationHandle number)
{
    std::lock_guard guard(memory().lock);
    auto handle = handle_of(number);
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (--handle->references == 0)
        memory().handles.erase(number);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemMap, CUdeviceptr address, size_t size, size_t offset,
          CUmemGenericAllocationHandle number, unsigned long long flags)
{
    std::lock_guard guard(memory().lock);
    auto handle = handle_of(number);
    if (!handle || !size || offset || flags || !whole_blocks(address) ||
        !whole_blocks(size) || size > handle->extent->size ||
        !memory().reserved(address, size) || !unmapped(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    map(address, size, handle);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemUnmap, CUdeviceptr address, size_t size)
{
    std::lock_guard guard(memory().lock);
    auto all = mappings(address, size);
    if (all.empty())
        return CUDA_ERROR_INVALID_VALUE;
    for (Block *block : all)
        memory().remove_block(block);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemSetAccess, CUdeviceptr address, size_t size,
          const CUmemAccessDesc *access, size_t count)
{
    std::lock_guard guard(memory().lock);
    auto all = mappings(address, size);
    if (all.empty() || !access || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        if (!valid_device(access[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    }
    const auto set = [](uint64_t &mask, uint64_t bit, bool on) {
        mask = on ? mask | bit : mask & ~bit;
    };
    for (Block *block : all) {
        for (size_t i = 0; i < count; ++i) {
            const uint64_t bit   = uint64_t(1) << access[i].location.id;
            const unsigned flags = access[i].flags;
            set(block->readable, bit, flags & CU_MEM_ACCESS_FLAGS_PROT_READ);
            set(block->writable, bit,
                flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemRetainAllocationHandle,
          CUmemGenericAllocationHandle *out, void *address)
{
    std::lock_guard guard(memory().lock);
    Block *block = memory().block_at(reinterpret_cast<CUdeviceptr>(address));
    if (!out || !block || block->kind != Kind::vmm)
        return CUDA_ERROR_INVALID_VALUE;
    ++block->handle->references;
    memory().handles[block->handle->number] = block->handle;
    *out                                    = block->handle->number;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemGetAllocationPropertiesFromHandle,
          CUmemAllocationProp *out, CUmemGenericAllocationHandle number)
{
    std::shared_lock guard(memory().lock);
    auto handle = handle_of(number);
    if (!out || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    *out = handle->properties;
    return CUDA_SUCCESS;
}
