// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated runtime and management library. Neither is linked with: the
// runtime is opened as a program's dependency would be.
#include "../nvml/newer.h"
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

// UCX in wheels is linked with one of these, whatever the program's is.
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

// What nvcc's code does, for one program with a kernel and a variable.
class Kernels : public Runtime {
protected:
    template <typename F>
    F load(const char *name)
    {
        void *found = dlsym(library, name);
        EXPECT_NE(nullptr, found) << name;
        return reinterpret_cast<F>(found);
    }
    void SetUp() override
    {
        Runtime::SetUp();
        handle = load<void **(*)(void *)>("__cudaRegisterFatBinary")(nullptr);
        load<void (*)(void **, const char *, char *, const char *, int, void *,
                      void *, void *, void *, int *)>("__cudaRegisterFunction")(
            handle, &kernel, nullptr, "kernel", -1, nullptr, nullptr, nullptr,
            nullptr, nullptr);
        load<void (*)(void **, char *, char *, const char *, int, size_t, int,
                      int)>("__cudaRegisterVar")(handle, &variable, nullptr,
                                                 "variable", 0, 8, 0, 0);
        load<void (*)(void **)>("__cudaRegisterFatBinaryEnd")(handle);
    }
    void unregister()
    {
        load<void (*)(void **)>("__cudaUnregisterFatBinary")(handle);
    }

    void **handle = nullptr;
    char kernel = 0, variable = 0;
};

TEST_F(Kernels, HaveNoImageForThisGpu)
{
    auto launch = LOAD(library, cudaLaunchKernel);
    auto last   = LOAD(library, cudaGetLastError);
    EXPECT_EQ(cudaErrorNoKernelImageForDevice,
              launch(&kernel, 1, 1, nullptr, 0, nullptr));
    EXPECT_EQ(cudaErrorNoKernelImageForDevice, last());
    EXPECT_EQ(cudaErrorInvalidConfiguration,
              launch(&kernel, 0, 1, nullptr, 0, nullptr));
    EXPECT_EQ(cudaErrorInvalidDeviceFunction,
              launch(&variable, 1, 1, nullptr, 0, nullptr));
    size_t size;
    auto size_of =
        load<cudaError_t (*)(size_t *, const void *)>("cudaGetSymbolSize");
    EXPECT_EQ(cudaErrorNoKernelImageForDevice, size_of(&size, &variable));
    EXPECT_EQ(cudaErrorInvalidSymbol, size_of(&size, &kernel));
    unregister();
    EXPECT_EQ(cudaErrorInvalidSymbol, size_of(&size, &variable));
    EXPECT_EQ(cudaErrorInvalidDeviceFunction,
              launch(&kernel, 1, 1, nullptr, 0, nullptr));
}

TEST_F(Kernels, AreConfiguredBeforeTheirLaunch)
{
    auto push = load<unsigned (*)(dim3, dim3, size_t, cudaStream_t)>(
        "__cudaPushCallConfiguration");
    auto pop = load<cudaError_t (*)(dim3 *, dim3 *, size_t *, void *)>(
        "__cudaPopCallConfiguration");
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    ASSERT_EQ(0u, push(dim3(3), dim3(4, 5), 6, cudaStreamLegacy));
    ASSERT_EQ(cudaSuccess, pop(&grid, &block, &shared, &stream));
    EXPECT_EQ(3u, grid.x);
    EXPECT_EQ(5u, block.y);
    EXPECT_EQ(6u, shared);
    EXPECT_EQ(cudaStreamLegacy, stream);
    EXPECT_EQ(cudaErrorMissingConfiguration,
              pop(&grid, &block, &shared, &stream));
    unregister();
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

TEST(Nvml, ReportsPlaceAndFabric)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    ASSERT_NE(nullptr, library) << dlerror();
    nvmlDevice_t device;
    ASSERT_EQ(NVML_SUCCESS, LOAD(library, nvmlInit_v2)());
    ASSERT_EQ(NVML_SUCCESS,
              LOAD(library, nvmlDeviceGetHandleByIndex_v2)(1, &device));
    nvmlPciInfo_t pci;
    ASSERT_EQ(NVML_SUCCESS,
              LOAD(library, nvmlDeviceGetPciInfo_v3)(device, &pci));
    ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
    char id[32];
    ASSERT_EQ(CUDA_SUCCESS, cuDeviceGetPCIBusId(id, sizeof(id), 1));
    EXPECT_STRCASEEQ(id, pci.busIdLegacy);
    nvmlGpuFabricInfo_v2_t info{};
    auto fabric = LOAD(library, nvmlDeviceGetGpuFabricInfoV);
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
