// SPDX-License-Identifier: BSD-3-Clause
//
// The state of memory after its release.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <common/elsewhere.h>
#include <fcntl.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::conformance {
namespace {

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

void contexts_take_memory_along()
{
    CUcontext before = nullptr, context;
    CUdeviceptr address;
    GPU_TRY(cuCtxGetCurrent, &before);
    if (gpu::create_context(&context, 0) != CUDA_SUCCESS)
        return;
    GPU_TRY(cuMemAlloc, &address, 4 * MiB);
    GPU_TRY(cuCtxDestroy, context);
    GPU_TRY(cuCtxSetCurrent, before);
    claim(buffer_id(address) == 0,
          "cuCtxDestroy releases the context's cuMemAlloc memory");
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

void check_release()
{
    section("release");
    free_with_dmabuf();
    unmapping();
    contexts_take_memory_along();
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
    claim(number(CU_POINTER_ATTRIBUTE_MAPPED, mapping.address()) == 1,
          "MAPPED is 1 where there is memory");
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
