// SPDX-License-Identifier: BSD-3-Clause
//
// The results of pointer queries for each kind of memory, and BUFFER_ID, by
// which the registration cache recognizes an allocation.
#include "conformance.h"

#include <set>

namespace ucx_ib_dmabuf::conformance {
namespace {

void device_memory()
{
    const gpu::buffer memory(4 * MiB), little(1000);
    const CUdeviceptr address = memory.address();
    CUdeviceptr base          = 0;
    size_t size               = 0;
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
    const CUdeviceptr start = little.address();
    claim(start % 256 == 0, "allocations are aligned to 256 bytes or more",
          std::to_string(start & -start));
}

void other_memory()
{
    const gpu::buffer managed(2 * MiB, gpu::memory::managed),
        pinned(2 * MiB, gpu::memory::pinned),
        pooled(2 * MiB, gpu::memory::pool);
    const auto type = [](const gpu::buffer &of) {
        return number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, of.address());
    };
    claim(number(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed.address()) == 1,
          "managed memory says so");
    claim(type(pinned) == CU_MEMORYTYPE_HOST, "pinned memory is host memory");
    claim(number(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled.address()) != 0,
          "stream-ordered memory names its pool");
    claim(type(pooled) == CU_MEMORYTYPE_DEVICE,
          "stream-ordered memory is device memory");
}

void no_memory()
{
    const gpu::buffer pageable(8192, gpu::memory::host);
    const CUdeviceptr address = pageable.address();
    unsigned type = 9, managed = 9;
    claim_result(CUDA_ERROR_INVALID_VALUE,
                 GPU_TRY(cuPointerGetAttribute, &type,
                         CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
                 "cuPointerGetAttribute of pageable memory");
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[]                = {&type, &managed};
    CUresult result = GPU_TRY(cuPointerGetAttributes, 2, which, data, address);
    claim(result == CUDA_SUCCESS && type == 0 && managed == 0,
          "cuPointerGetAttributes of pageable memory succeeds with zeros",
          name_of(result));
    CUdeviceptr base;
    size_t size;
    claim_refused(GPU_TRY(cuMemGetAddressRange, &base, &size, address),
                  "cuMemGetAddressRange of pageable memory");
}

void over_and_over(const char *name, size_t size, int times)
{
    std::set<unsigned long long> seen;
    int same = 0;
    for (int i = 0; i < times; ++i) {
        const gpu::buffer memory(size);
        same += !seen.insert(buffer_id(memory.address())).second;
    }
    claim(same == 0 && !seen.count(0),
          std::string("BUFFER_ID never comes twice, ") + name);
}

void pool_memory()
{
    CUdeviceptr a, b;
    if (GPU_TRY(cuMemAllocAsync, &a, 4 * MiB, nullptr) != CUDA_SUCCESS)
        return;
    auto before = buffer_id(a);
    GPU_TRY(cuMemFreeAsync, a, nullptr);
    if (GPU_TRY(cuMemAllocAsync, &b, 4 * MiB, nullptr) != CUDA_SUCCESS)
        return;
    auto after = buffer_id(b);
    if (a == b)
        claim(before && after && before != after,
              "BUFFER_ID of stream-ordered memory changes when it is reused");
    CUdeviceptr c;
    if (GPU_TRY(cuMemAllocAsync, &c, 4 * MiB, nullptr) == CUDA_SUCCESS) {
        claim(buffer_id(c) != buffer_id(b),
              "BUFFER_ID of two stream-ordered allocations differs");
        GPU_TRY(cuMemFreeAsync, c, nullptr);
    }
    GPU_TRY(cuMemFreeAsync, b, nullptr);
    GPU_TRY(cuStreamSynchronize, nullptr);
}

void mapped_memory()
{
    gpu::segments mapping(2);
    auto first = buffer_id(mapping.address());
    claim(first != buffer_id(mapping.address() + mapping.step()),
          "BUFFER_ID of two mapped handles differs");
    mapping.remap(0);
    claim(first != buffer_id(mapping.address()),
          "BUFFER_ID changes when other memory is mapped");
}

} // namespace

void check_queries()
{
    section("queries");
    device_memory();
    other_memory();
    no_memory();
}

void check_identity()
{
    section("identity");
    {
        const gpu::buffer a(1000), b(1000);
        claim(buffer_id(a.address()) != buffer_id(b.address()),
              "BUFFER_ID of two small allocations differs");
        claim(buffer_id(a.address()) == buffer_id(a.address() + 999),
              "BUFFER_ID is the same throughout an allocation");
    }
    over_and_over("1000 bytes", 1000, 200);
    over_and_over("4 MiB", 4 * MiB, 200);
    pool_memory();
    mapped_memory();
}

} // namespace ucx_ib_dmabuf::conformance
