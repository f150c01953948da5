// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include <common/gpu.h>

#include "scenario.h"

/** A GPU for the scenarios: the simulated one, through public entry points. */
namespace ucx_ib_dmabuf::test {

constexpr size_t MIB = 1 << 20;

using Malloc      = CUresult(CUdeviceptr *, size_t);
using MallocAsync = CUresult(CUdeviceptr *, size_t, CUstream);
using Free        = CUresult(CUdeviceptr);
using FreeAsync   = CUresult(CUdeviceptr, CUstream);
using Range       = CUresult(CUdeviceptr, size_t);

/** The simulated driver, with a current context. */
class Gpu {
public:
    Gpu()
        : context(gpu::use()),
          attribute_(
              get<decltype(::cuPointerGetAttribute)>("cuPointerGetAttribute"))
    {
    }

    template <class Function>
    Function *get(const char *name) const
    {
        return gpu::entry<Function>(name);
    }

    /** Looks up an entry point with cuGetProcAddress. */
    template <class Function>
    Function *entry(const char *name, uint64_t flags, int version = 12000) const
    {
        void *address = nullptr;
        gpu::check(
            get<CUresult(const char *, void **, int, cuuint64_t, int *)>(
                "cuGetProcAddress_v2")(name, &address, version, flags, nullptr),
            name);
        return reinterpret_cast<Function *>(address);
    }

    void make_current(CUcontext which) const
    {
        GPU_CALL(cuCtxSetCurrent, which);
    }

    CUdeviceptr allocate(size_t size) const
    {
        CUdeviceptr address = 0;
        GPU_CALL(cuMemAlloc, &address, size);
        return address;
    }

    bool alive(CUdeviceptr address) const
    {
        unsigned type;
        return attribute_(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
               CUDA_SUCCESS;
    }

    CUcontext context;

private:
    decltype(::cuPointerGetAttribute) *attribute_;
};

// Expects that 'release' announces [address, address + size) while it is alive.
inline void expect_release(const Gpu &gpu, CUdeviceptr address, size_t size,
                           const std::function<int()> &release)
{
    Events events([&] { return gpu.alive(address); });
    CHECK(gpu.alive(address));
    CHECK_EQ(release(), 0);
    bool announced = false;
    for (const SeenEvent &event : events.take()) {
        announced |= event.free && event.context &&
                     (event.address <= address) &&
                     (event.address + event.size >= address + size);
    }
    CHECK(announced);
    CHECK(!gpu.alive(address));
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

/** A scenario, and the test that runs it with and without UCX's own hooks. */
#define GPU_TEST(_suite, _name, ...)                                           \
    TEST_P(_suite, _name)                                                      \
    {                                                                          \
        EXPECT_TRUE(                                                           \
            run_on_gpu(#_name, GetParam() __VA_OPT__(, ) __VA_ARGS__));        \
    }                                                                          \
    SCENARIO(_name)

} // namespace ucx_ib_dmabuf::test
