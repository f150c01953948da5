// SPDX-License-Identifier: BSD-3-Clause
//
// BUFFER_ID, by which the registration cache recognizes an allocation.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <set>

namespace ucx_ib_dmabuf::conformance {
namespace {

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
