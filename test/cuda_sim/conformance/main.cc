// SPDX-License-Identifier: BSD-3-Clause
//
// How the GPU, or the simulated one, behaves where this project rests on it.
// Prints a table in TAP. Exit status: 0 if everything claimed holds, 1 if not.
// Without a GPU everything is skipped.
#include "claims.h"
#include "driver.h"
#include "report.h"

#include <cstdio>
#include <dlfcn.h>

namespace ucx_ib_dmabuf::conformance {

Driver cu;

bool load(Driver &driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("1..0 # SKIP no libcuda.so.1: %s\n", dlerror());
        return false;
    }
    driver.simulated = dlsym(library, "cuda_sim_calls") != nullptr;
    using Get        = CUresult (*)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *);
    auto get = reinterpret_cast<Get>(dlsym(library, "cuGetProcAddress_v2"));
    if (!get) {
        printf("1..0 # SKIP the driver is older than CUDA 12\n");
        return false;
    }
    const char *missing = nullptr;
    // Names with a version are symbols only.
#define CONFORMANCE_LOAD(_name, ...)                                           \
    {                                                                          \
        void *found = nullptr;                                                 \
        if (get(#_name, &found, CUDA_VERSION, 0, nullptr) != CUDA_SUCCESS)     \
            found = dlsym(library, #_name);                                    \
        driver._name##_ = reinterpret_cast<decltype(driver._name##_)>(found);  \
        if (!found)                                                            \
            missing = #_name;                                                  \
    }
    CONFORMANCE_CALLS(CONFORMANCE_LOAD)
#undef CONFORMANCE_LOAD
    if (missing) {
        printf("1..0 # SKIP the driver has no %s of CUDA %d\n", missing,
               CUDA_VERSION);
        return false;
    }
    CUresult result = driver.cuInit_(0);
    if (result != CUDA_SUCCESS) {
        printf("1..0 # SKIP cuInit: %s\n", name_of(result).c_str());
        return false;
    }
    return true;
}

static void say_what_it_is()
{
    int version = 0, dmabuf = 0;
    char name[128] = "";
    cu.cuDriverGetVersion_(&version);
    cu.cuDeviceGetName_(name, sizeof(name), 0);
    cu.cuDeviceGetAttribute_(&dmabuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0);
    printf("# %s, %s, driver API %d, dma-bufs %s\n", name,
           cu.simulated ? "SIMULATED" : "hardware", version,
           dmabuf ? "supported" : "not supported");
}

} // namespace ucx_ib_dmabuf::conformance

using namespace ucx_ib_dmabuf::conformance;

int main()
{
    if (!load(cu))
        return 0;
    say_what_it_is();
    CUcontext context;
    if (cu.cuDevicePrimaryCtxRetain_(&context, 0) != CUDA_SUCCESS ||
        cu.cuCtxSetCurrent_(context) != CUDA_SUCCESS) {
        printf("Bail out! no context\n");
        return 1;
    }
    check_queries();
    check_kinds();
    check_exports();
    check_identity();
    check_mappings();
    check_release();
    check_contexts();
    check_gone();
    check_captures();
    check_fork();
    measure();
    return finish() ? 1 : 0;
}
