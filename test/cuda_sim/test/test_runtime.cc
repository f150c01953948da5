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

// UCX before 1.19 makes these calls.
TEST_F(Runtime, RecordsEventsAndPinsMemory)
{
    cudaEvent_t event;
    ASSERT_EQ(cudaSuccess, LOAD(library, cudaEventCreateWithFlags)(
                               &event, cudaEventDisableTiming));
    EXPECT_EQ(cudaSuccess, LOAD(library, cudaEventRecord)(event, nullptr));
    EXPECT_EQ(cudaSuccess, LOAD(library, cudaEventQuery)(event));
    EXPECT_EQ(cudaSuccess, LOAD(library, cudaEventDestroy)(event));

    alignas(4096) static char host[4096];
    const auto unpin = LOAD(library, cudaHostUnregister);
    ASSERT_EQ(cudaSuccess,
              LOAD(library, cudaHostRegister)(host, sizeof(host), 0));
    EXPECT_EQ(cudaSuccess, unpin(host));
    EXPECT_EQ(cudaErrorHostMemoryNotRegistered, unpin(host));
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

// The calls of nvcc's code for a program with a kernel and a variable.
TEST_F(Runtime, KernelsHaveNoImageForThisGpu)
{
    char kernel = 0, variable = 0;
    size_t size;
    auto enter = reinterpret_cast<void **(*)(void *)>(
        dlsym(library, "__cudaRegisterFatBinary"));
    auto leave = reinterpret_cast<void (*)(void **)>(
        dlsym(library, "__cudaUnregisterFatBinary"));
    auto size_of = reinterpret_cast<cudaError_t (*)(size_t *, const void *)>(
        dlsym(library, "cudaGetSymbolSize"));
    void **handle = enter(nullptr);
    ASSERT_NE(nullptr, handle);
    EXPECT_EQ(
        cudaErrorNoKernelImageForDevice,
        LOAD(library, cudaLaunchKernel)(&kernel, 1, 1, nullptr, 0, nullptr));
    EXPECT_EQ(cudaErrorNoKernelImageForDevice,
              LOAD(library, cudaGetLastError)());
    EXPECT_EQ(cudaErrorNoKernelImageForDevice, size_of(&size, &variable));
    leave(handle);
}

using Library = testing::Test;
TEST_ALONE(Library, OfNvmlWithoutGpu, "CUDA_SIM_DEVICES=0")
{
    EXPECT_EQ(NVML_ERROR_DRIVER_NOT_LOADED,
              LOAD(dlopen("libnvidia-ml.so.1", RTLD_NOW), nvmlInit)());
}

TEST(Nvml, ReportsBar1LinksPlaceAndFabric)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    ASSERT_NE(nullptr, library) << dlerror();
    auto init    = LOAD(library, nvmlInit_v2);
    auto get     = LOAD(library, nvmlDeviceGetHandleByIndex_v2);
    auto bar1    = LOAD(library, nvmlDeviceGetBAR1MemoryInfo);
    auto field   = LOAD(library, nvmlDeviceGetFieldValues);
    auto link_of = LOAD(library, nvmlDeviceGetNvLinkRemotePciInfo_v2);
    auto fabric  = LOAD(library, nvmlDeviceGetGpuFabricInfoV);
    nvmlDevice_t device;
    EXPECT_EQ(NVML_ERROR_UNINITIALIZED, get(1, &device));
    ASSERT_EQ(NVML_SUCCESS, init());
    ASSERT_EQ(NVML_SUCCESS, get(1, &device));
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, get(2, &device));
    nvmlBAR1Memory_t memory;
    ASSERT_EQ(NVML_SUCCESS, bar1(device, &memory));
    EXPECT_EQ(128ull << 30, memory.bar1Total);

    nvmlFieldValue_t value{};
    value.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT;
    ASSERT_EQ(NVML_SUCCESS, field(device, 1, &value));
    EXPECT_EQ(18u, value.value.uiVal);
    nvmlPciInfo_t pci;
    EXPECT_EQ(NVML_SUCCESS, link_of(device, 17, &pci));
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, link_of(device, 18, &pci));
    ASSERT_EQ(NVML_SUCCESS,
              LOAD(library, nvmlDeviceGetPciInfo_v3)(device, &pci));
    ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
    char id[32];
    ASSERT_EQ(CUDA_SUCCESS, cuDeviceGetPCIBusId(id, sizeof(id), 1));
    EXPECT_STRCASEEQ(id, pci.busIdLegacy);

    nvmlGpuFabricInfo_v2_t info{};
    EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, fabric(device, &info));
    info.version = nvmlGpuFabricInfo_v2;
    info.state   = 3;
    EXPECT_EQ(NVML_SUCCESS, fabric(device, &info));
    EXPECT_EQ(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, info.state);
    nvmlGpuFabricInfo_t old{};
    old.state = 3;
    EXPECT_EQ(NVML_SUCCESS,
              LOAD(library, nvmlDeviceGetGpuFabricInfo)(device, &old));
    EXPECT_EQ(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, old.state);
}

} // namespace
} // namespace ucx_ib_dmabuf::test
