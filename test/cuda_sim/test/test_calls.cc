// SPDX-License-Identifier: BSD-3-Clause
//
// Entry points, planned failures, statistics, settings, processes.
#include "gpu.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <sstream>

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

TEST_F(Calls, AreCountedByName)
{
    const uint64_t all         = cuda_sim_calls(nullptr);
    const uint64_t allocations = cuda_sim_calls("cuMemAlloc_v2");
    const uint64_t releases    = cuda_sim_calls("cuMemFree_v2");
    CUdeviceptr address        = allocate(512);
    EXPECT_CUDA(cuMemFree(address));
    EXPECT_NE(CUDA_SUCCESS, cuMemFree(address));
    EXPECT_EQ(allocations + 1, cuda_sim_calls("cuMemAlloc_v2"));
    EXPECT_EQ(releases + 2, cuda_sim_calls("cuMemFree_v2"));
    EXPECT_EQ(0u, cuda_sim_calls("cuNoSuchCall"));
    EXPECT_EQ(all + 3, cuda_sim_calls(nullptr));
}

TEST_F(Calls, GetProcAddressFindsVersions)
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

std::string read_file(const std::string &name)
{
    std::ifstream file(name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST_F(Calls, DISABLED_CopySome)
{
    char host[1000] = {};
    CUdeviceptr a   = allocate(1000);
    ASSERT_CUDA(cuMemcpyHtoD(a, host, 1000));
    ASSERT_CUDA(cuMemcpyDtoH(host, a, 10));
}

TEST(Settings, StatsAreAppendedAtExit)
{
    char name[] = "/tmp/cuda_sim-stats.XXXXXX";
    int fd      = mkstemp(name);
    ASSERT_GE(fd, 0);
    close(fd);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(0, run_alone("CUDA_SIM_STATS=" + std::string(name),
                               "Calls.DISABLED_CopySome"));
    std::string text = read_file(name);
    unlink(name);
    EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n'));
    EXPECT_NE(text.npos, text.find("{\"pid\":"));
    EXPECT_NE(text.npos, text.find("\"cuMemcpyHtoD_v2\":1"));
    EXPECT_NE(text.npos, text.find("\"h2d\":1000,\"d2h\":10,\"d2d\":0"));
}

TEST(Settings, WrongOnesAreSaid)
{
    std::string output;
    run_alone("CUDA_SIM_DEVICES=many CUDA_SIM_FAIL=cuMemAllok=1 "
              "CUDA_SIM_COLOUR=red CUDA_SIM_DMABUF=maybe",
              "Calls.DISABLED_CopySome", &output);
    for (const char *part :
         {"CUDA_SIM_DEVICES=many: not a number",
          "CUDA_SIM_FAIL: 'cuMemAllok=1' is not a known call",
          "there is no setting CUDA_SIM_COLOUR",
          "CUDA_SIM_DMABUF=maybe: neither auto nor none"})
        EXPECT_NE(output.npos, output.find(part)) << part << "\n" << output;
}

TEST_ALONE(Calls, OfANewerDriver, "CUDA_SIM_DRIVER_VERSION=13040")
{
    void *found;
    EXPECT_CUDA(cuGetProcAddress("cuGraphAddNode", &found, 13040, 0, nullptr));
    EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuGraphAddNode_v3"), found);
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

} // namespace
} // namespace ucx_ib_dmabuf::test
