// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that need a current context, and queries about memory of a destroyed
// context.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <string>
#include <thread>

namespace ucx_ib_dmabuf::conformance {
namespace {

std::string in_bytes(CUdeviceptr base, size_t size, CUdeviceptr address)
{
    return std::to_string(address - base) + " bytes in, of " +
           std::to_string(size);
}

// Compares the attributes of a range with cuMemGetAddressRange.
void ranges(const char *name, CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t size      = 0;
    CUresult result  = GPU_TRY(cuMemGetAddressRange, &base, &size, address);
    observe(std::string("cuMemGetAddressRange, ") + name,
            result == CUDA_SUCCESS ? in_bytes(base, size, address)
                                   : name_of(result));
    observe(
        std::string("RANGE_START_ADDR and _SIZE, ") + name,
        in_bytes(
            CUdeviceptr(number(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address)),
            size_t(number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)), address));
    observe(std::string("MAPPING_BASE_ADDR and _SIZE, ") + name,
            in_bytes(CUdeviceptr(number(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                        address)),
                     size_t(number(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, address)),
                     address));
}

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
    ranges(name, address);
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
void without(const char *name, CUdeviceptr address, size_t length)
{
    CUdeviceptr base;
    size_t size;
    std::string of = std::string(", ") + name;
    claim(buffer_id(address) != 0, "cuPointerGetAttribute works" + of);
    claim(number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) > 0,
          "RANGE_SIZE can be had" + of);
    observe("cuMemGetAddressRange" + of,
            name_of(GPU_TRY(cuMemGetAddressRange, &base, &size, address)));
    observe("cuMemGetHandleForAddressRange" + of,
            name_of(try_export(address, length)));
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
    if (count < 2) {
        observe("cuCtxGetId of a primary context that comes again",
                "one GPU, nothing to check");
        return;
    }
    for (unsigned long long &id : seen) {
        if (GPU_TRY(cuDevicePrimaryCtxRetain, &context, 1) == CUDA_SUCCESS) {
            GPU_TRY(cuCtxGetId, context, &id);
            GPU_TRY(cuDevicePrimaryCtxRelease, 1);
        }
    }
    claim(seen[0] && seen[1] && seen[0] != seen[1],
          "cuCtxGetId tells a primary context from the one before it");
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
        without("cuMemAlloc memory", ordinary.address(), 2 * MiB);
        without("stream-ordered memory", pooled.address(), 2 * MiB);
        without("mapped memory", mapping.address(), mapping.step());
        device_calls(ordinary.address());
    }).join();
}

void check_gone()
{
    section("a context that is gone");
    CUcontext before         = nullptr, context;
    CUdeviceptr address      = 0;
    unsigned long long first = 0, second = 0, id = 0;
    GPU_TRY(cuCtxGetCurrent, &before);
    if (gpu::create_context(&context, 0) != CUDA_SUCCESS)
        return;
    GPU_TRY(cuCtxGetId, context, &first);
    GPU_TRY(cuMemAlloc, &address, 4 * MiB);
    GPU_TRY(cuCtxDestroy, context);
    GPU_TRY(cuCtxSetCurrent, before);
    unsigned type                   = 0;
    CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *data[]                    = {&id};
    CUresult one                    = GPU_TRY(cuPointerGetAttribute, &type,
                                              CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    claim_refused(one, "cuPointerGetAttribute of its memory");
    observe(
        "cuPointerGetAttributes of its memory",
        name_of(GPU_TRY(cuPointerGetAttributes, 1, attribute, data, address)) +
            ", BUFFER_ID " + std::to_string(id));
    if (gpu::create_context(&context, 0) != CUDA_SUCCESS)
        return;
    GPU_TRY(cuCtxGetId, context, &second);
    GPU_TRY(cuCtxDestroy, context);
    GPU_TRY(cuCtxSetCurrent, before);
    claim(first && second && first != second,
          "cuCtxGetId never gives two contexts the same");
    primary_comes_again();
}

} // namespace ucx_ib_dmabuf::conformance
