// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../compat.h"
#include "../cuda_sim.h"

#include <common/gpu.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf::test {

inline constexpr size_t KiB = 1024;
inline constexpr size_t MiB = 1024 * KiB;

#define ASSERT_CUDA(_call) ASSERT_EQ(CUDA_SUCCESS, _call)
#define EXPECT_CUDA(_call) EXPECT_EQ(CUDA_SUCCESS, _call)

// A test with a current context of the first GPU.
class Gpu : public testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_CUDA(cuInit(0));
        context = gpu::create_context(0);
    }
    void TearDown() override
    {
        cuda_sim_set_fail(nullptr);
        cuCtxDestroy(context);
    }

    CUdeviceptr allocate(size_t size)
    {
        CUdeviceptr address = 0;
        EXPECT_CUDA(cuMemAlloc(&address, size));
        return address;
    }

    static CUresult export_range(int *fd, CUdeviceptr address, size_t size,
                                 unsigned long long flags = 0)
    {
        return cuMemGetHandleForAddressRange(
            fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
    }

    // Of the current context's GPU.
    static size_t free_bytes()
    {
        size_t left = 0, total;
        EXPECT_CUDA(cuMemGetInfo(&left, &total));
        return left;
    }

    static std::vector<char> download(CUdeviceptr address, size_t size)
    {
        std::vector<char> data(size);
        EXPECT_CUDA(cuMemcpyDtoH(data.data(), address, size));
        return data;
    }

    template <typename T>
    static T pointer_attribute(CUpointer_attribute which, CUdeviceptr address)
    {
        T value{};
        EXPECT_CUDA(cuPointerGetAttribute(&value, which, address));
        return value;
    }

    // A coherent GPU's driver answers for any address.
    static bool is_memory(CUdeviceptr address)
    {
        unsigned type = 0;
        return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     address) == CUDA_SUCCESS &&
               type != 0;
    }

    static unsigned long long buffer_id(CUdeviceptr address)
    {
        return pointer_attribute<unsigned long long>(
            CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    }

    CUcontext context = nullptr;
};

// Runs this program's test NAME, which has the prefix DISABLED_, in a process
// of its own with these settings ("NAME=VALUE ..."). Returns the exit status as
// wait() does, and stores the process's output in 'output'.
inline int run_alone(const std::string &settings, const std::string &name,
                     std::string *output = nullptr)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
    std::string command =
        "exec env " + settings + " '" + std::string(self, size_t(length)) +
        "' --gtest_also_run_disabled_tests --gtest_filter='" + name + "' 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    while (size_t got = fread(buffer, 1, sizeof(buffer), pipe))
        text.append(buffer, got);
    if (output)
        *output = text;
    int status = pclose(pipe);
    if (status)
        printf("%s", text.c_str());
    return status;
}

// As TEST_F, but run that way.
#define TEST_ALONE(_fixture, _name, _settings)                                 \
    TEST(_fixture##Alone, _name)                                               \
    {                                                                          \
        EXPECT_EQ(0, run_alone(_settings, #_fixture ".DISABLED_" #_name));     \
    }                                                                          \
    TEST_F(_fixture, DISABLED_##_name)

} // namespace ucx_ib_dmabuf::test
