// SPDX-License-Identifier: BSD-3-Clause
//
// What pointer queries say about each kind of memory.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <vector>

namespace ucx_ib_dmabuf::conformance {
namespace {

CUdeviceptr address_of(const void *memory)
{
    return reinterpret_cast<CUdeviceptr>(memory);
}

void device_memory()
{
    CUdeviceptr address, base = 0;
    size_t size = 0;
    if (GPU_TRY(cuMemAlloc, &address, 4 * MiB) != CUDA_SUCCESS)
        return;
    claim(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 12345) ==
              CU_MEMORYTYPE_DEVICE,
          "the middle of cuMemAlloc memory is device memory");
    claim(number(CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == 0,
          "cuMemAlloc memory is not managed");
    GPU_TRY(cuMemGetAddressRange, &base, &size, address + 12345);
    claim(base == address && size == 4 * MiB,
          "cuMemGetAddressRange gives the allocation as asked for",
          std::to_string(size));
    unsigned on = 1;
    claim_result(CUDA_SUCCESS,
                 GPU_TRY(cuPointerSetAttribute, &on,
                         CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address),
                 "SYNC_MEMOPS can be set on cuMemAlloc memory");
    GPU_TRY(cuMemFree, address);
    if (GPU_TRY(cuMemAlloc, &address, 1000) != CUDA_SUCCESS)
        return;
    claim(address % 256 == 0, "allocations are aligned to 256 bytes or more",
          std::to_string(address & -address));
    GPU_TRY(cuMemGetAddressRange, &base, &size, address);
    observe("size of a 1000-byte allocation", std::to_string(size));
    GPU_TRY(cuMemFree, address);
}

void other_memory()
{
    CUdeviceptr managed, pooled;
    void *pinned;
    if (GPU_TRY(cuMemAllocManaged, &managed, 2 * MiB, CU_MEM_ATTACH_GLOBAL) ==
        CUDA_SUCCESS) {
        claim(number(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed) == 1,
              "managed memory says so");
        observe(
            "memory type of managed memory",
            std::to_string(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed)));
        GPU_TRY(cuMemFree, managed);
    }
    if (GPU_TRY(cuMemAllocHost, &pinned, 2 * MiB) == CUDA_SUCCESS) {
        claim(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(pinned)) ==
                  CU_MEMORYTYPE_HOST,
              "pinned memory is host memory");
        GPU_TRY(cuMemFreeHost, pinned);
    }
    if (GPU_TRY(cuMemAllocAsync, &pooled, 2 * MiB, nullptr) == CUDA_SUCCESS) {
        claim(number(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled) != 0,
              "stream-ordered memory names its pool");
        claim(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pooled) ==
                  CU_MEMORYTYPE_DEVICE,
              "stream-ordered memory is device memory");
        unsigned on = 1;
        observe("SYNC_MEMOPS on stream-ordered memory",
                name_of(GPU_TRY(cuPointerSetAttribute, &on,
                                CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pooled)));
        GPU_TRY(cuMemFreeAsync, pooled, nullptr);
        GPU_TRY(cuStreamSynchronize, nullptr);
    }
}

void no_memory()
{
    std::vector<char> pageable(8192);
    unsigned type = 9, managed = 9;
    claim_result(CUDA_ERROR_INVALID_VALUE,
                 GPU_TRY(cuPointerGetAttribute, &type,
                         CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                         address_of(pageable.data())),
                 "cuPointerGetAttribute of pageable memory");
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[]                = {&type, &managed};
    CUresult result = GPU_TRY(cuPointerGetAttributes, 2, which, data,
                              address_of(pageable.data()));
    claim(result == CUDA_SUCCESS && type == 0 && managed == 0,
          "cuPointerGetAttributes of pageable memory succeeds with zeros",
          name_of(result));
    CUdeviceptr base;
    size_t size;
    claim_refused(GPU_TRY(cuMemGetAddressRange, &base, &size,
                          address_of(pageable.data())),
                  "cuMemGetAddressRange of pageable memory");
}

} // namespace

void check_queries()
{
    section("queries");
    device_memory();
    other_memory();
    no_memory();
}

} // namespace ucx_ib_dmabuf::conformance
