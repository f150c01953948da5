// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated runtime and management library. The test links with neither; it
// opens the runtime, as if that were a program's dependency.
#include "../management/nvml.h"
#include "gpu.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace ucx_ib_dmabuf::test {
namespace {

#define LOAD(_library, _name)                                                  \
    reinterpret_cast<decltype(&::_name)>(dlsym(_library, #_name))

class Runtime : public testing::Test {
protected:
    void *library =
        dlopen(("libcudart.so." + std::to_string(CUDA_VERSION / 1000)).c_str(),
               RTLD_NOW);
    void SetUp() override
    {
        ASSERT_NE(nullptr, library) << dlerror();
        // Removes contexts of earlier tests.
        CUcontext old;
        while (cuCtxPopCurrent(&old) == CUDA_SUCCESS)
            continue;
    }
    void TearDown() override
    {
        // Leaves no context for later tests.
        EXPECT_EQ(cudaSuccess, LOAD(library, cudaDeviceReset)());
    }
};

TEST_F(Runtime, MakesAContextAndCopies)
{
    auto set_device = LOAD(library, cudaSetDevice);
    auto allocate   = LOAD(library, cudaMalloc);
    auto copy       = LOAD(library, cudaMemcpy);
    auto release    = LOAD(library, cudaFree);
    ASSERT_EQ(cudaSuccess, set_device(1));
    void *address;
    const uint64_t allocations = cuda_sim_calls("cuMemAlloc_v2");
    ASSERT_EQ(cudaSuccess, allocate(&address, 4096));
    EXPECT_EQ(allocations + 1, cuda_sim_calls("cuMemAlloc_v2"));
    char out[4096] = {'h', 'i'}, back[4096];
    ASSERT_EQ(cudaSuccess, copy(address, out, 4096, cudaMemcpyHostToDevice));
    ASSERT_EQ(cudaSuccess, copy(back, address, 4096, cudaMemcpyDefault));
    EXPECT_EQ(0, memcmp(out, back, 4096));
    int device;
    EXPECT_EQ(CUDA_SUCCESS, cuPointerGetAttribute(
                                &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                reinterpret_cast<CUdeviceptr>(address)));
    EXPECT_EQ(1, device);
    EXPECT_EQ(cudaSuccess, release(address));
    EXPECT_EQ(cudaSuccess, release(nullptr));
}

// UCX in wheels is linked with one of these, whichever the program uses.
TEST(Runtimes, AreThereForEachVersion)
{
    int expected = 0;
    for (const char *version : {"libcudart.so.12", "libcudart.so.13"}) {
        void *library = dlopen(version, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, library) << dlerror();
        auto get = reinterpret_cast<decltype(&::cudaRuntimeGetVersion)>(
            dlvsym(library, "cudaRuntimeGetVersion", version));
        ASSERT_NE(nullptr, get);
        int found = 0;
        EXPECT_EQ(cudaSuccess, get(&found));
        EXPECT_STREQ(strrchr(version, '.') + 1,
                     std::to_string(found / 1000).c_str());
        EXPECT_LT(expected, found);
        expected = found;
    }
}

using Library = testing::Test;
TEST_ALONE(Library, OfNvmlWithoutGpu, "CUDA_SIM_DEVICES=0")
{
    EXPECT_EQ(NVML_ERROR_DRIVER_NOT_LOADED,
              LOAD(dlopen("libnvidia-ml.so.1", RTLD_NOW), nvmlInit)());
}

} // namespace
} // namespace ucx_ib_dmabuf::test
