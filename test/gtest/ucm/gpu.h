// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "scenario.h"
#include <common/gpu.h>
#include <functional>
#include <string>

/** A GPU for the scenarios: the simulated one, through public entry points. */
namespace ucx_ib_dmabuf::test {

constexpr size_t MIB = 1 << 20;

using Free      = CUresult(CUdeviceptr);
using FreeAsync = CUresult(CUdeviceptr, CUstream);

/** Looks up an entry point with cuGetProcAddress. */
template <class Function>
Function *entry_of(const char *name, uint64_t flags = 0, int version = 12000)
{
    void *address = nullptr;
    gpu::check(
        gpu::entry<CUresult(const char *, void **, int, cuuint64_t, int *)>(
            "cuGetProcAddress_v2")(name, &address, version, flags, nullptr),
        name);
    return reinterpret_cast<Function *>(address);
}

inline CUdeviceptr allocate(size_t size)
{
    CUdeviceptr address = 0;
    GPU_CALL(cuMemAlloc, &address, size);
    return address;
}

inline bool is_alive(CUdeviceptr address)
{
    unsigned type;
    return GPU_TRY(cuPointerGetAttribute, &type,
                   CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS;
}

// Expects that 'release' announces [address, address + size) while it is alive.
inline void expect_release(CUdeviceptr address, size_t size,
                           const std::function<int()> &release)
{
    Events events([&] { return is_alive(address); });
    CHECK(is_alive(address));
    CHECK_EQ(release(), 0);
    bool announced = false;
    for (const SeenEvent &event : events.take()) {
        announced |= event.free && event.context &&
                     (event.address <= address) &&
                     (event.address + event.size >= address + size);
    }
    CHECK(announced);
    CHECK(!is_alive(address));
}

/** Runs a scenario with UCX's own CUDA hooks, or without them. */
inline bool run_on_gpu(const std::string &scenario, bool with_ucx,
                       const std::string &setting = "UNUSED=1")
{
    std::vector<std::string> environment{
        setting,
        "CUDART_PATH=" + variable("CUDA_SIM_LIBDIR") + "/" CUDART_NAME};
    if (!with_ucx) {
        environment.push_back("UCX_MODULES=^cuda");
    }
    return run_scenario(scenario, environment);
}

/** A scenario with a GPU in use, and the test that runs it with and without
 *  UCX's own hooks. */
#define GPU_TEST(_suite, _name, ...)                                           \
    static void use_gpu_##_name(CUcontext context);                            \
    TEST_P(_suite, _name)                                                      \
    {                                                                          \
        EXPECT_TRUE(                                                           \
            run_on_gpu(#_name, GetParam() __VA_OPT__(, ) __VA_ARGS__));        \
    }                                                                          \
    SCENARIO(_name)                                                            \
    {                                                                          \
        use_gpu_##_name(gpu::use());                                           \
    }                                                                          \
    static void use_gpu_##_name([[maybe_unused]] CUcontext context)

} // namespace ucx_ib_dmabuf::test
