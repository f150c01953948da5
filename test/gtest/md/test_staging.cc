// SPDX-License-Identifier: BSD-3-Clause
//
// The host copy that stands in for a registration, in the lab: what the NIC
// sees and what the GPU gets back. The test writes to the copy as a NIC would.
#include "../../../src/uct/ib_dmabuf/md/staging.h"
#include "../common/gpu.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr size_t size = 100000;

class test_staging : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        cuda_ = driver::get();
        list_ = ibv_get_device_list(nullptr);
        ASSERT_NE(nullptr, list_);
        ASSERT_NE(nullptr, list_[0]) << "no RDMA device";
        context_ = ibv_open_device(list_[0]);
        ASSERT_NE(nullptr, context_);
        pd_     = ibv_alloc_pd(context_);
        buffer_ = std::make_unique<gpu::buffer>(size);
        GPU_CALL(cuMemsetD8, buffer_->address(), 'g', size);
    }
    void TearDown() override
    {
        buffer_.reset();
        ibv_dealloc_pd(pd_);
        ibv_close_device(context_);
        ibv_free_device_list(list_);
    }

    std::unique_ptr<staging_buffer> stage(size_t offset, size_t length)
    {
        return staging_buffer::create(
            *cuda_, pd_, buffer_->address() + offset, length,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    }
    static char *copy_of(const std::unique_ptr<staging_buffer> &staged)
    {
        return static_cast<char *>(staged->mr()->addr);
    }
    std::string contents() const
    {
        std::string bytes(size, '?');
        GPU_CALL(cuMemcpyDtoH, bytes.data(), buffer_->address(), size);
        return bytes;
    }

    const driver *cuda_   = nullptr;
    ibv_device **list_    = nullptr;
    ibv_context *context_ = nullptr;
    ibv_pd *pd_           = nullptr;
    std::unique_ptr<gpu::buffer> buffer_;
};

TEST_F(test_staging, the_nic_sees_what_is_on_the_gpu)
{
    auto staged = stage(12345, 1000);

    ASSERT_TRUE(staged);
    EXPECT_EQ(1000u, staged->mr()->length);
    EXPECT_EQ(std::string(1000, 'g'), std::string(copy_of(staged), 1000));
}

TEST_F(test_staging, what_the_nic_wrote_goes_to_the_gpu)
{
    auto staged          = stage(0, size);
    std::string expected = contents();

    ASSERT_TRUE(staged);
    std::fill_n(copy_of(staged) + 777, 1001, 'n');
    std::fill_n(expected.begin() + 777, 1001, 'n');
    staged->finish();
    EXPECT_EQ(expected, contents());
}

TEST_F(test_staging, the_first_and_the_last_byte_count)
{
    auto staged          = stage(0, size);
    std::string expected = contents();

    ASSERT_TRUE(staged);
    copy_of(staged)[0]        = 'n';
    copy_of(staged)[size - 1] = 'n';
    expected.front()          = 'n';
    expected.back()           = 'n';
    staged->finish();
    EXPECT_EQ(expected, contents());
}

// Two receives into one allocation, which is copied whole for each.
TEST_F(test_staging, operations_on_one_allocation_keep_each_others_bytes)
{
    auto first           = stage(0, size);
    auto second          = stage(0, size);
    std::string expected = contents();

    ASSERT_TRUE(first && second);
    std::fill_n(copy_of(first) + 100, 50, '1');
    std::fill_n(copy_of(second) + 150, 50, '2');
    std::fill_n(expected.begin() + 100, 50, '1');
    std::fill_n(expected.begin() + 150, 50, '2');
    first->finish();
    second->finish();
    EXPECT_EQ(expected, contents());
}

// A send, which writes nothing.
TEST_F(test_staging, what_changed_on_the_gpu_meanwhile_stays)
{
    auto staged = stage(0, size);

    ASSERT_TRUE(staged);
    GPU_CALL(cuMemsetD8, buffer_->address(), 'x', size);
    staged->finish();
    EXPECT_EQ(std::string(size, 'x'), contents());
}

TEST_F(test_staging, memory_that_is_gone_cannot_be_staged)
{
    const uintptr_t address = buffer_->address();

    buffer_->release();
    EXPECT_FALSE(staging_buffer::create(*cuda_, pd_, address, size,
                                        IBV_ACCESS_LOCAL_WRITE));
}

} // namespace
