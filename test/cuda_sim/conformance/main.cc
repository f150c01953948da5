// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the behaviour of the GPU, or the simulated one, on which this project
// relies. Prints a table in TAP. Exits with 0 if all claims hold, else with 1.
// Without a GPU everything is skipped.
#include "claims.h"
#include "report.h"

#include <common/driver.h>
#include <cstdio>

namespace ucx_ib_dmabuf::conformance {
namespace {

// Prints the reason and returns false if there is nothing to check.
bool load()
{
    if (gpu::library() == nullptr) {
        printf("1..0 # SKIP no libcuda.so.1: %s\n", dlerror());
        return false;
    }
    CUresult result = GPU_TRY(cuInit, 0);
    if (result != CUDA_SUCCESS) {
        printf("1..0 # SKIP cuInit: %s\n", name_of(result).c_str());
        return false;
    }
    return true;
}

void say_what_it_is()
{
    int version = 0, dmabuf = 0;
    char name[128] = "";
    GPU_TRY(cuDriverGetVersion, &version);
    GPU_TRY(cuDeviceGetName, name, sizeof(name), 0);
    GPU_TRY(cuDeviceGetAttribute, &dmabuf,
            CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0);
    printf("# %s, %s, driver API %d, dma-bufs %s\n", name,
           gpu::is_simulated() ? "SIMULATED" : "hardware", version,
           dmabuf ? "supported" : "not supported");
}

void check_all()
{
    say_what_it_is();
    gpu::use();
    for (auto *part : {check_calls, check_queries, check_kinds, check_exports,
                       check_identity, check_mappings, check_release,
                       check_contexts, check_gone, check_captures,
                       check_kernels, check_lookup, check_fork}) {
        try {
            part();
        } catch (const std::exception &error) {
            if (gpu::is_simulated()) // it must support all of it
                throw;
            observe("the rest is not possible here", error.what());
        }
    }
}

} // namespace
} // namespace ucx_ib_dmabuf::conformance

using namespace ucx_ib_dmabuf::conformance;

int main()
{
    ask_without_gpu();
    if (!load())
        return 0;
    try {
        check_all();
    } catch (const std::exception &error) {
        // The context could not be made, or the driver is too old.
        printf("Bail out! %s\n", error.what());
        return 1;
    }
    return finish() ? 1 : 0;
}
