// SPDX-License-Identifier: BSD-3-Clause
//
// Entry points, planned failures, settings, processes; the runtime and the
// management library, which the test does not link with.
#include "gpu.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace ucx_ib_dmabuf::test {
namespace {

using Calls = Gpu;

TEST_F(Calls, FailAsPlanned)
{
    CUdeviceptr address = allocate(512);
    unsigned value;
    auto query = [&] {
        return cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     address);
    };
    ASSERT_EQ(0, cuda_sim_set_fail("cuPointerGetAttribute=801:2-3"));
    EXPECT_CUDA(query());
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, query());
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, query());
    EXPECT_CUDA(query());
    ASSERT_EQ(0, cuda_sim_set_fail("cuPointerGetAttribute=2:1,cuMemFree_v2=3"));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, query());
    EXPECT_CUDA(query());
    EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, cuMemFree(address));
    EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, cuMemFree(address));
    ASSERT_EQ(0, cuda_sim_set_fail(""));
    EXPECT_CUDA(cuMemFree(address));
}

TEST_F(Calls, WrongPlansAreRefused)
{
    const char *wrong[] = {"cuNoSuchCall=1",   "cuMemFree_v2",
                           "cuMemFree_v2=",    "cuMemFree_v2=x",
                           "cuMemFree_v2=1:",  "cuMemFree_v2=1:3-2",
                           "cuMemFree_v2=1:0", "cuMemFree_v2=1 "};
    for (const char *plan : wrong)
        EXPECT_EQ(-1, cuda_sim_set_fail(plan)) << plan;
    EXPECT_CUDA(cuMemFree(allocate(512)));
}

TEST_ALONE(Calls, GetProcAddressFindsVersions, "CUDA_SIM_DRIVER_VERSION=13040")
{
    void *found, *self = dlopen("libcuda.so.1", RTLD_NOW);
    struct {
        const char *name;
        int version;
        unsigned long long flags;
        const char *symbol;
    } expected[] = {
        {"cuMemAlloc", 12000, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
        {"cuCtxCreate", 12000, 0, "cuCtxCreate_v3"},
        {"cuCtxCreate", 11000, 0, "cuCtxCreate_v2"},
        {"cuMemFreeAsync", 12000, 2, "cuMemFreeAsync_ptsz"},
        {"cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"},
        {"cuGraphAddNode", 13000, 0, "cuGraphAddNode_v2"},
        {"cuGraphAddNode", 13040, 0, "cuGraphAddNode_v3"},
    };
    for (auto &one : expected) {
        EXPECT_CUDA(cuGetProcAddress(one.name, &found, one.version, one.flags,
                                     nullptr));
        EXPECT_EQ(dlsym(self, one.symbol), found) << one.name;
    }
    EXPECT_CUDA(cuGetProcAddress("cuda_sim_calls", &found, 12000, 0, nullptr));
    EXPECT_EQ(nullptr, found);
    dlclose(self);
}

TEST(Settings, WrongOnesAreSaid)
{
    std::string output;
    run_alone("CUDA_SIM_DEVICES=many CUDA_SIM_FAIL=cuMemAllok=1 "
              "CUDA_SIM_COLOUR=red CUDA_SIM_DMABUF=maybe",
              "no.test", &output);
    for (const char *part :
         {"CUDA_SIM_DEVICES=many: not a number",
          "CUDA_SIM_FAIL: 'cuMemAllok=1' is not a known call",
          "there is no setting CUDA_SIM_COLOUR",
          "CUDA_SIM_DMABUF=maybe: neither auto nor none"})
        EXPECT_NE(output.npos, output.find(part)) << part << "\n" << output;
}

// An exit handler that runs after the driver's own finds the driver shut down.
struct Late {
    bool armed = false;
    ~Late()
    {
        CUdeviceptr address;
        if (armed && cuMemAlloc(&address, 512) != CUDA_ERROR_DEINITIALIZED)
            _exit(99);
    }
} late;

TEST_ALONE(Calls, FindTheDriverGoneAtExit, "")
{
    late.armed = true;
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
    auto *init = reinterpret_cast<int (*)()>(
        dlsym(dlopen("libnvidia-ml.so.1", RTLD_NOW), "nvmlInit"));
    EXPECT_EQ(9, init()); // NVML_ERROR_DRIVER_NOT_LOADED
}

} // namespace
} // namespace ucx_ib_dmabuf::test
