// SPDX-License-Identifier: BSD-3-Clause
//
// The costs of calls. Nothing is claimed.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace ucx_ib_dmabuf::conformance {
namespace {

// Prints the median of some rounds, in ns per call.
template <typename F>
void cost(const std::string &name, int calls, F call)
{
    using clock = std::chrono::steady_clock;
    double rounds[7];
    for (double &round : rounds) {
        auto start = clock::now();
        for (int i = 0; i < calls; ++i)
            call();
        round = std::chrono::duration<double, std::nano>(clock::now() - start)
                    .count() /
                calls;
    }
    std::sort(rounds, rounds + 7);
    char text[64];
    snprintf(text, sizeof(text), "%.0f ns", rounds[3]);
    observe(name, text);
}

} // namespace

void measure()
{
    section("costs");
    const gpu::buffer memory(256 * MiB);
    const CUdeviceptr address = memory.address();
    unsigned long long id;
    unsigned type, managed;
    CUdeviceptr base;
    size_t size;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *data[] = {&type, &managed, &id, &base, &size};
    cost("cuPointerGetAttribute, one", 100000, [&] {
        GPU_TRY(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                address + 4096);
    });
    cost("cuPointerGetAttributes, five", 100000, [&] {
        GPU_TRY(cuPointerGetAttributes, 5, which, data, address + 4096);
    });
    cost("cuMemGetAddressRange", 100000,
         [&] { GPU_TRY(cuMemGetAddressRange, &base, &size, address + 4096); });
    for (const size_t length : {64 * KiB, 2 * MiB, 256 * MiB}) {
        if (try_export(address, length) == CUDA_SUCCESS)
            cost("export and close, " + std::to_string(length) + " bytes", 20,
                 [&] { try_export(address, length); });
    }
    for (const size_t length : {4 * KiB, 4 * MiB})
        cost("cuMemAlloc and cuMemFree, " + std::to_string(length) + " bytes",
             100, [&] { gpu::buffer once(length); });
}

} // namespace ucx_ib_dmabuf::conformance
