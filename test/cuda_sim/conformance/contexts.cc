// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that need a current context, and memory after its release or the end of
// its context.
#include "conformance.h"

#include <common/elsewhere.h>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace ucx_ib_dmabuf::conformance {
namespace {

// The attributes that distinguish ordinary, mapped and stream-ordered memory.
void kind(const char *name, CUdeviceptr address, bool ordinary, bool owner,
          bool pool)
{
    std::string text(name);
    claim((number(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) ==
           1) == ordinary,
          text + (ordinary ? " is" : " is not") + " LEGACY_CUDA_IPC_CAPABLE");
    claim((number(CU_POINTER_ATTRIBUTE_CONTEXT, address) > 0) == owner,
          text + (owner ? " has" : " has no") + " CONTEXT");
    claim((number(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) > 0) == pool,
          text + (pool ? " has" : " has no") + " MEMPOOL_HANDLE");
}

void kinds()
{
    const gpu::buffer ordinary(2 * MiB), pooled(2 * MiB, gpu::memory::pool);
    const gpu::segments mapping(3, 0, true, 2);
    const CUdeviceptr address = ordinary.address();
    claim(number(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 4321) ==
                  (long long)address &&
              number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 4321) ==
                  2 * (long long)MiB,
          "RANGE_START_ADDR and _SIZE are those of cuMemAlloc");
    kind("cuMemAlloc memory", address, true, true, false);
    kind("stream-ordered memory", pooled.address(), false, false, true);
    kind("mapped memory", mapping.address() + mapping.step(), false, false,
         false);
}

// For a thread without a current context.
void without(const char *name, CUdeviceptr address)
{
    std::string of = std::string(", ") + name;
    claim(buffer_id(address) != 0, "cuPointerGetAttribute works" + of);
    claim(number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) > 0,
          "RANGE_SIZE can be had" + of);
}

void device_calls(CUdeviceptr address)
{
    CUdeviceptr other;
    char byte;
    int value;
    CUdevice device;
    claim_result(CUDA_SUCCESS,
                 GPU_TRY(cuDeviceGetAttribute, &value,
                         CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0),
                 "cuDeviceGetAttribute works");
    claim_refused(GPU_TRY(cuCtxGetDevice, &device), "cuCtxGetDevice");
    claim_result(CUDA_ERROR_INVALID_CONTEXT,
                 GPU_TRY(cuMemAlloc, &other, 2 * MiB), "cuMemAlloc");
    claim_result(CUDA_ERROR_INVALID_CONTEXT,
                 GPU_TRY(cuMemcpyDtoH, &byte, address, 1), "cuMemcpyDtoH");
    claim_result(CUDA_ERROR_INVALID_CONTEXT, GPU_TRY(cuCtxSynchronize),
                 "cuCtxSynchronize");
}

// Uses another GPU, which nothing else uses here.
void primary_comes_again()
{
    int count                  = 0;
    unsigned long long seen[2] = {0, 0};
    CUcontext context;
    GPU_TRY(cuDeviceGetCount, &count);
    if (count < 2)
        return;
    for (unsigned long long &id : seen) {
        if (GPU_TRY(cuDevicePrimaryCtxRetain, &context, 1) == CUDA_SUCCESS) {
            GPU_TRY(cuCtxGetId, context, &id);
            GPU_TRY(cuDevicePrimaryCtxRelease, 1);
        }
    }
    claim(seen[0] && seen[1] && seen[0] != seen[1],
          "cuCtxGetId tells a primary context from the one before it");
}

// A free while a dma-buf is open: the memory must not be reused yet.
void free_with_dmabuf()
{
    gpu::buffer memory(64 * MiB);
    const CUdeviceptr address = memory.address();
    int fd;
    if (export_range(&fd, address, 64 * MiB) != CUDA_SUCCESS)
        return;
    claim_result(CUDA_SUCCESS, memory.release(),
                 "cuMemFree with a dma-buf open");
    claim(fcntl(fd, F_GETFD) >= 0, "the descriptor stays open");
    claim(buffer_id(address) == 0, "the address is unknown at once");
    close(fd);
}

void unmapping()
{
    const gpu::segments mapping(1);
    const gpu::buffer ordinary(2 * MiB);
    CUmemGenericAllocationHandle handle;
    const CUdeviceptr base = mapping.address();
    claim_result(CUDA_SUCCESS,
                 GPU_TRY(cuMemRetainAllocationHandle, &handle,
                         reinterpret_cast<void *>(base)),
                 "cuMemRetainAllocationHandle of mapped memory");
    GPU_TRY(cuMemRelease, handle);
    claim_refused(GPU_TRY(cuMemFree, base), "cuMemFree of mapped memory");
    claim_refused(
        GPU_TRY(cuMemRetainAllocationHandle, &handle, ordinary.pointer()),
        "cuMemRetainAllocationHandle of cuMemAlloc memory");
}

} // namespace

void check_contexts()
{
    section("kinds and ranges");
    kinds();
    section("without a current context");
    const gpu::buffer ordinary(2 * MiB), pooled(2 * MiB, gpu::memory::pool);
    const gpu::segments mapping(1);
    std::thread([&] {
        without("cuMemAlloc memory", ordinary.address());
        without("stream-ordered memory", pooled.address());
        without("mapped memory", mapping.address());
        device_calls(ordinary.address());
    }).join();
}

void check_gone()
{
    section("a context that is gone");
    CUcontext before         = nullptr, context;
    CUdeviceptr address      = 0;
    unsigned long long first = 0, second = 0;
    GPU_TRY(cuCtxGetCurrent, &before);
    if (gpu::create_context(&context, 0) != CUDA_SUCCESS)
        return;
    GPU_TRY(cuCtxGetId, context, &first);
    GPU_TRY(cuMemAlloc, &address, 4 * MiB);
    GPU_TRY(cuCtxDestroy, context);
    GPU_TRY(cuCtxSetCurrent, before);
    unsigned type = 0;
    claim_refused(GPU_TRY(cuPointerGetAttribute, &type,
                          CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
                  "cuPointerGetAttribute of its memory");
    if (gpu::create_context(&context, 0) != CUDA_SUCCESS)
        return;
    GPU_TRY(cuCtxGetId, context, &second);
    GPU_TRY(cuCtxDestroy, context);
    GPU_TRY(cuCtxSetCurrent, before);
    claim(first && second && first != second,
          "cuCtxGetId never gives two contexts the same");
    primary_comes_again();
}

void check_release()
{
    section("release");
    free_with_dmabuf();
    unmapping();
}

void check_mappings()
{
    section("mappings");
    const gpu::segments mapping(3, 0, true, 2);
    const CUdeviceptr second = mapping.address() + mapping.step();
    CUdeviceptr base         = 0;
    size_t size              = 0;
    GPU_TRY(cuMemGetAddressRange, &base, &size, second);
    claim(base == second && size == mapping.step(),
          "cuMemGetAddressRange gives one handle's part, not the reservation");
    unsigned on = 1;
    claim_refused(GPU_TRY(cuPointerSetAttribute, &on,
                          CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, mapping.address()),
                  "SYNC_MEMOPS on mapped memory");
    claim_refused(GPU_TRY(cuMemAddressFree, mapping.address(), mapping.size()),
                  "cuMemAddressFree with memory still mapped");
}

void check_fork()
{
    section("fork");
    CUdeviceptr address;
    claim(in_child([&] {
              return GPU_TRY(cuMemAlloc, &address, 512) != CUDA_SUCCESS;
          }),
          "a child cannot use its parent's GPU");
}

} // namespace ucx_ib_dmabuf::conformance
