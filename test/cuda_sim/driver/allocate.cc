// SPDX-License-Identifier: BSD-3-Clause
//
// cuMemAlloc and its kin; host memory.
#include "calls.h"
#include "context.h"

#include <algorithm>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::sim {
namespace {

constexpr uint64_t pitch_unit = 512;

CUresult allocate(CUdeviceptr *out, uint64_t size)
{
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = current_context();
    std::lock_guard guard(memory().lock);
    Allocation *made =
        size < block_size
            ? context->heap.allocate(size)
            : memory().allocate(Kind::device, context->device, size, context);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = made->base;
    return CUDA_SUCCESS;
}

CUresult allocate_pitch(CUdeviceptr *out, size_t *pitch, uint64_t width,
                        uint64_t height, unsigned element)
{
    if (!pitch || !width || !height ||
        (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t rounded = round_up(width, pitch_unit);
    CUresult result  = allocate(out, rounded * height);
    if (result == CUDA_SUCCESS)
        *pitch = rounded;
    return result;
}

// Requires the lock.
void enter_host(CUdeviceptr base, uint64_t size, Kind kind)
{
    CUcontext context          = current_context();
    memory().allocations[base] = {
        kind, base, size, memory().next_id(), context->device, context};
}

CUresult allocate_on_host(void **out, uint64_t size, Kind kind)
{
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    void *address =
        mmap(nullptr, round_up(size, host_page()), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard guard(memory().lock);
    enter_host(reinterpret_cast<CUdeviceptr>(address), size, kind);
    *out = address;
    return CUDA_SUCCESS;
}

CUresult allocate_managed(CUdeviceptr *out, uint64_t size, unsigned flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_on_host(reinterpret_cast<void **>(out), size,
                            Kind::managed);
}

CUresult host_register(void *address, uint64_t size)
{
    if (!address || !size)
        return CUDA_ERROR_INVALID_VALUE;
    auto base = reinterpret_cast<CUdeviceptr>(address);
    std::lock_guard guard(memory().lock);
    auto next = memory().allocations.lower_bound(base);
    if (memory().find(base) ||
        (next != memory().allocations.end() && next->first < base + size))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    enter_host(base, size, Kind::registered);
    return CUDA_SUCCESS;
}

// Frees or unregisters memory of one of these kinds, given its first byte.
CUresult free_memory(CUdeviceptr base, std::initializer_list<Kind> kinds,
                     CUresult otherwise = CUDA_ERROR_INVALID_VALUE)
{
    std::lock_guard guard(memory().lock);
    Allocation *found = memory().find(base);
    if (!found || found->base != base ||
        std::find(kinds.begin(), kinds.end(), found->kind) == kinds.end())
        return otherwise;
    if (found->block) {
        memory().free(*found);
        return CUDA_SUCCESS;
    }
    if (found->kind != Kind::registered)
        munmap(reinterpret_cast<void *>(base),
               round_up(found->size, host_page()));
    memory().allocations.erase(base);
    return CUDA_SUCCESS;
}

CUdeviceptr as_device(void *address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

// clang-format off
SIM_ENTRY_IS(context, cuMemAlloc_v2, allocate(out, size),
             CUdeviceptr *out, size_t size)
SIM_ENTRY_IS(context, cuMemAllocPitch_v2,
             allocate_pitch(out, pitch, width, height, element),
             CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
             unsigned element)
SIM_ENTRY_IS(context, cuMemAllocManaged, allocate_managed(out, size, flags),
             CUdeviceptr *out, size_t size, unsigned flags)
SIM_ENTRY_IS(context, cuMemFree_v2,
             free_memory(base, {Kind::device, Kind::pool, Kind::managed}),
             CUdeviceptr base)
SIM_ENTRY_IS(context, cuMemAllocHost_v2,
             allocate_on_host(out, size, Kind::host), void **out, size_t size)
SIM_ENTRY_IS(context, cuMemHostAlloc, allocate_on_host(out, size, Kind::host),
             void **out, size_t size, unsigned)
SIM_ENTRY_IS(context, cuMemFreeHost,
             free_memory(as_device(address), {Kind::host}), void *address)
SIM_ENTRY_IS(context, cuMemHostRegister_v2, host_register(address, size),
             void *address, size_t size, unsigned)
SIM_ENTRY_IS(context, cuMemHostUnregister,
             free_memory(as_device(address), {Kind::registered},
                         CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED), void *address)
// clang-format on

// UCX's modules for GPU-initiated transfers are linked with these.
SIM_ENTRY_IS(driver, cuMemHostGetDevicePointer_v2, CUDA_ERROR_NOT_SUPPORTED,
             CUdeviceptr *, void *, unsigned)
SIM_ENTRY_IS(driver, cuFlushGPUDirectRDMAWrites, CUDA_ERROR_NOT_SUPPORTED,
             CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope)

// Entry points from before CUDA 3.2, with 32-bit addresses. The real library
// has them, and tools hook them; today's programs do not call them.
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree
#undef cuMemGetAddressRange
SIM_ENTRY_IS(driver, cuMemAlloc, CUDA_ERROR_NOT_SUPPORTED, unsigned *, unsigned)
SIM_ENTRY_IS(driver, cuMemAllocPitch, CUDA_ERROR_NOT_SUPPORTED, unsigned *,
             unsigned *, unsigned, unsigned, unsigned)
SIM_ENTRY_IS(driver, cuMemFree, CUDA_ERROR_NOT_SUPPORTED, unsigned)
SIM_ENTRY_IS(driver, cuMemGetAddressRange, CUDA_ERROR_NOT_SUPPORTED, unsigned *,
             unsigned *, unsigned)
