// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/gpu.h>
#include <gtest/gtest.h>
#include <memory>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <unistd.h>
#include <vector>

using namespace ucx_ib_dmabuf;

constexpr size_t mib = 1 << 20;

// The first GPU's primary context is current.
class cuda_test : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        ASSERT_NE(nullptr, driver::get());
        cuda_ = std::make_unique<cuda_vendor>(*driver::get());
    }

    std::unique_ptr<cuda_vendor> cuda_;
};
