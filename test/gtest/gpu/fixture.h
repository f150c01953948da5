// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/gpu.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <unistd.h>
#include <vector>

using namespace ucx_ib_dmabuf;

constexpr size_t mib = 1 << 20;

inline CUcontext current_context()
{
    CUcontext context = nullptr;
    GPU_CALL(cuCtxGetCurrent, &context);
    return context;
}

// The first GPU's primary context is current.
class cuda_test : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        ASSERT_NE(nullptr, driver::get());
        cuda_ = std::make_unique<cuda_vendor>(*driver::get());
    }

    void copy(uintptr_t address)
    {
        std::vector<char> out(1000, 'x');
        std::vector<char> in(1000);

        EXPECT_EQ(UCS_OK,
                  cuda_->copy_from_host(address, out.data(), out.size()));
        EXPECT_EQ(UCS_OK, cuda_->copy_to_host(in.data(), address, in.size()));
        EXPECT_EQ(out, in);
    }

    // All operations on the memory work in this thread, and leave its context.
    void use(uintptr_t base, size_t size, int device = 0)
    {
        const CUcontext before = current_context();
        const uintptr_t inside = base + size / 2 + 5;
        allocation found;
        int fd = -1;

        EXPECT_EQ(UCS_OK, cuda_->describe(inside, &found));
        EXPECT_EQ(base, found.base);
        EXPECT_EQ(size, found.size);
        EXPECT_EQ(device, found.device);
        EXPECT_TRUE(cuda_->is_current(inside, found.identity));
        const uintptr_t begin = cuda_->export_begin(base);
        EXPECT_EQ(UCS_OK, cuda_->export_range(begin, base + size - begin, &fd));
        close(fd);
        copy(inside);
        EXPECT_EQ(before, current_context());
    }

    std::unique_ptr<cuda_vendor> cuda_;
};
