// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "alone.h"
#include <common/gpu.h>
#include <functional>
#include <string>

/** A GPU for the tests: the simulated one, through public entry points. */
namespace ucx_ib_dmabuf::test {

constexpr size_t MIB = 1 << 20;

using FreeAsync = CUresult(CUdeviceptr, CUstream);

/** Looks up an entry point with cuGetProcAddress. */
template <class Function>
Function *entry_of(const char *name, int version = 12000)
{
    void *address = nullptr;
    gpu::check(
        gpu::entry<CUresult(const char *, void **, int, cuuint64_t, int *)>(
            "cuGetProcAddress_v2")(name, &address, version, 0, nullptr),
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
    unsigned type = 0; // a coherent GPU's driver answers for any address
    return (GPU_TRY(cuPointerGetAttribute, &type,
                    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                    address) == CUDA_SUCCESS) &&
           (type != 0);
}

// Expects that 'release' announces [address, address + size) while it is alive.
inline void expect_release(CUdeviceptr address, size_t size,
                           const std::function<int()> &release)
{
    Events events([&] { return is_alive(address); });
    EXPECT_TRUE(is_alive(address));
    EXPECT_EQ(release(), 0);
    bool announced = false;
    for (const SeenEvent &event : events.take()) {
        announced |= event.free && event.context &&
                     (event.address <= address) &&
                     (event.address + event.size >= address + size);
    }
    EXPECT_TRUE(announced);
    EXPECT_FALSE(is_alive(address));
}

/** The environment of a test with UCX's own CUDA hooks, or without them. */
inline std::vector<std::string>
gpu_environment(bool with_ucx, const char *setting = "UNUSED=1")
{
    return {setting, with_ucx ? "UNUSED=1" : "UCX_MODULES=^cuda",
            "CUDART_PATH=" + variable("CUDA_SIM_LIBDIR") + "/" CUDART_NAME};
}

/** A test with a GPU in use, in a process of its own, with and without UCX's
 *  own hooks. */
#define GPU_TEST(_suite, _name, ...)                                           \
    static void use_gpu_##_name(CUcontext context);                            \
    TEST_P(_suite, _name)                                                      \
    {                                                                          \
        run_alone([] { use_gpu_##_name(gpu::use()); },                         \
                  gpu_environment(GetParam() __VA_OPT__(, ) __VA_ARGS__));     \
    }                                                                          \
    static void use_gpu_##_name([[maybe_unused]] CUcontext context)

} // namespace ucx_ib_dmabuf::test
