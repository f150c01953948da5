// SPDX-License-Identifier: BSD-3-Clause
//
// cuMemAlloc and its kin; host memory.
#include "calls.h"
#include "context.h"

#include <cstdint>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::sim {
namespace {

constexpr uint64_t pitch_unit = 512;
constexpr uint64_t page       = 4096;

CUresult allocate(CUdeviceptr *out, uint64_t size)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    Allocation *made;
    if (size < block_size) {
        made = context->heap.allocate(size);
    } else {
        made = memory().allocate(Kind::device, context->device, size);
        if (made)
            context->blocks.insert(made->block);
    }
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->context = context;
    *out          = made->base;
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

CUresult allocate_on_host(void **out, uint64_t size, Kind kind)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    void *address = mmap(nullptr, round_up(size, page), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard guard(memory().lock);
    auto base = reinterpret_cast<CUdeviceptr>(address);
    Allocation one{kind, base, size, memory().next_id(), context->device};
    one.context = context;
    memory().host.emplace(base, one);
    *out = address;
    return CUDA_SUCCESS;
}

// Frees or unregisters host memory of this kind, given its first byte.
CUresult free_on_host(void *address, Kind kind)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    std::lock_guard guard(memory().lock);
    auto one = memory().host.find(reinterpret_cast<CUdeviceptr>(address));
    if (one == memory().host.end() || one->second.kind != kind)
        return kind == Kind::registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                                        : CUDA_ERROR_INVALID_VALUE;
    if (kind != Kind::registered)
        munmap(address, round_up(one->second.size, page));
    memory().host.erase(one);
    return CUDA_SUCCESS;
}

CUresult free_device(CUdeviceptr base)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    {
        std::lock_guard guard(memory().lock);
        Allocation *found = memory().find(base);
        if (!found || found->base != base ||
            (found->kind != Kind::device && found->kind != Kind::pool &&
             found->kind != Kind::managed))
            return CUDA_ERROR_INVALID_VALUE;
        if (found->kind != Kind::managed) {
            if (found->context)
                found->context->blocks.erase(found->block);
            memory().free(*found);
            return CUDA_SUCCESS;
        }
    }
    return free_on_host(reinterpret_cast<void *>(base), Kind::managed);
}

CUresult host_register(void *address, uint64_t size)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    if (!address || !size)
        return CUDA_ERROR_INVALID_VALUE;
    auto base = reinterpret_cast<CUdeviceptr>(address);
    std::lock_guard guard(memory().lock);
    auto next = memory().host.lower_bound(base);
    if (memory().find(base) ||
        (next != memory().host.end() && next->first < base + size))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    Allocation one{Kind::registered, base, size, memory().next_id(),
                   context->device};
    one.context = context;
    memory().host.emplace(base, one);
    return CUDA_SUCCESS;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY_IS(cuMemAlloc_v2, allocate(out, size), CUdeviceptr *out, size_t size)
SIM_ENTRY_IS(cuMemAllocPitch_v2,
             allocate_pitch(out, pitch, width, height, element),
             CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
             unsigned element)

SIM_ENTRY(cuMemAllocManaged, CUdeviceptr *out, size_t size, unsigned flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_on_host(reinterpret_cast<void **>(out), size,
                            Kind::managed);
}

SIM_ENTRY_IS(cuMemFree_v2, free_device(address), CUdeviceptr address)
SIM_ENTRY_IS(cuMemAllocHost_v2, allocate_on_host(out, size, Kind::host),
             void **out, size_t size)
SIM_ENTRY_IS(cuMemHostAlloc, allocate_on_host(out, size, Kind::host),
             void **out, size_t size, unsigned)

SIM_ENTRY_IS(cuMemFreeHost, free_on_host(address, Kind::host), void *address)
SIM_ENTRY_IS(cuMemHostRegister_v2, host_register(address, size), void *address,
             size_t size, unsigned)

SIM_ENTRY_IS(cuMemHostUnregister, free_on_host(address, Kind::registered),
             void *address)

SIM_ENTRY(cuMemHostGetDevicePointer_v2, CUdeviceptr *out, void *address,
          unsigned flags)
{
    auto base = reinterpret_cast<CUdeviceptr>(address);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(base);
    if (!found || found->block || found->kind == Kind::managed)
        return CUDA_ERROR_INVALID_VALUE;
    *out = base;
    return CUDA_SUCCESS;
}

// Entry points from before CUDA 3.2, with 32-bit addresses. The real library
// has them, and tools hook them; today's programs do not call them.
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree
#undef cuMemGetAddressRange
SIM_ENTRY_IS(cuMemAlloc, CUDA_ERROR_NOT_SUPPORTED, unsigned *, unsigned)
SIM_ENTRY_IS(cuMemAllocPitch, CUDA_ERROR_NOT_SUPPORTED, unsigned *, unsigned *,
             unsigned, unsigned, unsigned)
SIM_ENTRY_IS(cuMemFree, CUDA_ERROR_NOT_SUPPORTED, unsigned)
SIM_ENTRY_IS(cuMemGetAddressRange, CUDA_ERROR_NOT_SUPPORTED, unsigned *,
             unsigned *, unsigned)
