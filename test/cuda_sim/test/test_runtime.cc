// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated runtime and management library. Neither is linked with: the
// runtime is opened as a program's dependency would be.
#include "../nvml/nvml.h"
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
        // Leaves no context of an earlier test.
        CUcontext old;
        while (cuCtxPopCurrent(&old) == CUDA_SUCCESS)
            continue;
    }
    void TearDown() override
    {
        // Nor one for later tests.
        EXPECT_EQ(cudaSuccess, LOAD(library, cudaDeviceReset)());
    }
};

TEST_F(Runtime, MakesAContextAndCopies)
{
    auto set_device = LOAD(library, cudaSetDevice);
    auto allocate   = LOAD(library, cudaMalloc);
    auto copy       = LOAD(library, cudaMemcpy);
    auto release    = LOAD(library, cudaFree);
    auto describe   = LOAD(library, cudaPointerGetAttributes);
    ASSERT_EQ(cudaSuccess, set_device(1));
    void *address;
    cuda_sim_reset();
    ASSERT_EQ(cudaSuccess, allocate(&address, 4096));
    EXPECT_EQ(1u, cuda_sim_calls("cuMemAlloc_v2"));
    char out[4096] = {'h', 'i'}, back[4096];
    ASSERT_EQ(cudaSuccess, copy(address, out, 4096, cudaMemcpyHostToDevice));
    ASSERT_EQ(cudaSuccess, copy(back, address, 4096, cudaMemcpyDefault));
    EXPECT_EQ(0, memcmp(out, back, 4096));
    cudaPointerAttributes attributes;
    ASSERT_EQ(cudaSuccess, describe(&attributes, address));
    EXPECT_EQ(cudaMemoryTypeDevice, attributes.type);
    EXPECT_EQ(1, attributes.device);
    ASSERT_EQ(cudaSuccess, describe(&attributes, out));
    EXPECT_EQ(cudaMemoryTypeUnregistered, attributes.type);
    EXPECT_EQ(cudaSuccess, release(address));
    EXPECT_EQ(cudaSuccess, release(nullptr));
}

TEST_F(Runtime, RemembersErrors)
{
    auto set_device = LOAD(library, cudaSetDevice);
    auto last       = LOAD(library, cudaGetLastError);
    auto text       = LOAD(library, cudaGetErrorString);
    EXPECT_EQ(cudaErrorInvalidDevice, set_device(7));
    EXPECT_EQ(cudaErrorInvalidDevice, last());
    EXPECT_EQ(cudaSuccess, last());
    EXPECT_STREQ("invalid device ordinal", text(cudaErrorInvalidDevice));
}

TEST_F(Runtime, ResetFreesEverything)
{
    auto allocate = LOAD(library, cudaMalloc);
    auto reset    = LOAD(library, cudaDeviceReset);
    void *address;
    ASSERT_EQ(cudaSuccess, allocate(&address, 4096));
    ASSERT_EQ(cudaSuccess, reset());
    unsigned type;
    EXPECT_EQ(gone_result(),
              cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    reinterpret_cast<CUdeviceptr>(address)));
    EXPECT_EQ(cudaSuccess, allocate(&address, 4096));
}

TEST_F(Runtime, SymbolsCarryTheVersion)
{
    std::string version = "libcudart.so." + std::to_string(CUDA_VERSION / 1000);
    EXPECT_NE(nullptr, dlvsym(library, "cudaMalloc", version.c_str()));
}

TEST_F(Runtime, AsynchronousMemory)
{
    auto allocate    = LOAD(library, cudaMallocAsync);
    auto release     = LOAD(library, cudaFreeAsync);
    auto set         = LOAD(library, cudaMemsetAsync);
    auto synchronize = LOAD(library, cudaStreamSynchronize);
    void *address;
    ASSERT_EQ(cudaSuccess, allocate(&address, 4096, nullptr));
    EXPECT_EQ(cudaSuccess, set(address, 1, 4096, nullptr));
    EXPECT_EQ(cudaSuccess, release(address, nullptr));
    EXPECT_EQ(cudaSuccess, synchronize(nullptr));
    EXPECT_EQ(cudaErrorInvalidValue, release(address, nullptr));
}

TEST(Nvml, ReportsBar1AndLinks)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    ASSERT_NE(nullptr, library) << dlerror();
    auto init  = LOAD(library, nvmlInit_v2);
    auto get   = LOAD(library, nvmlDeviceGetHandleByIndex_v2);
    auto bar1  = LOAD(library, nvmlDeviceGetBAR1MemoryInfo);
    auto field = LOAD(library, nvmlDeviceGetFieldValues);
    auto link  = LOAD(library, nvmlDeviceGetNvLinkRemotePciInfo_v2);
    nvmlDevice_t device;
    EXPECT_EQ(NVML_ERROR_UNINITIALIZED, get(0, &device));
    ASSERT_EQ(NVML_SUCCESS, init());
    ASSERT_EQ(NVML_SUCCESS, get(0, &device));
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, get(2, &device));
    nvmlBAR1Memory_t memory;
    ASSERT_EQ(NVML_SUCCESS, bar1(device, &memory));
    EXPECT_EQ(128ull << 30, memory.bar1Total);
    nvmlFieldValue_t value{};
    value.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT;
    ASSERT_EQ(NVML_SUCCESS, field(device, 1, &value));
    EXPECT_EQ(18u, value.value.uiVal);
    nvmlPciInfo_t pci;
    EXPECT_EQ(NVML_SUCCESS, link(device, 17, &pci));
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, link(device, 18, &pci));
}

} // namespace
} // namespace ucx_ib_dmabuf::test
