// SPDX-License-Identifier: BSD-3-Clause
//
// The host copy that stands in for a registration, in the lab: what the NIC
// sees and what the GPU gets back. The test writes to the copy as a NIC would.
#include "../../../src/uct/ib_dmabuf/cuda/vendor.h"
#include "../../../src/uct/ib_dmabuf/md/staging_pool.h"
#include <algorithm>
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr size_t size = 100000;

class test_staging : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        gpus_ = find_cuda();
        list_ = ibv_get_device_list(nullptr);
        ASSERT_NE(nullptr, list_);
        ASSERT_NE(nullptr, list_[0]) << "no RDMA device";
        context_ = ibv_open_device(list_[0]);
        ASSERT_NE(nullptr, context_);
        pd_   = ibv_alloc_pd(context_);
        pool_ = std::make_unique<staging_pool>(
            *gpus_, protection_domain{pd_, &verbs_},
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        buffer_ = std::make_unique<gpu::buffer>(size);
        GPU_CALL(cuMemsetD8, buffer_->address(), 'g', size);
    }
    void TearDown() override
    {
        buffer_.reset();
        pool_.reset();
        EXPECT_EQ(0, ibv_dealloc_pd(pd_)) << "a registration is left";
        ibv_close_device(context_);
        ibv_free_device_list(list_);
    }

    std::unique_ptr<staging_buffer> stage(size_t offset, size_t length)
    {
        return pool_->start(buffer_->address() + offset, length);
    }
    void finish(std::unique_ptr<staging_buffer> &staged)
    {
        pool_->finish(std::move(staged));
    }
    static char *copy_of(const std::unique_ptr<staging_buffer> &staged)
    {
        return staged->bytes();
    }
    // What another NIC writes to the GPU.
    void put(size_t offset, size_t length, char value)
    {
        GPU_CALL(cuMemsetD8, buffer_->address() + offset,
                 static_cast<unsigned char>(value), length);
    }
    static uint64_t copied()
    {
        cuda_sim_counters_t counters;
        gpu::entry<decltype(cuda_sim_counters)>("cuda_sim_counters")(&counters);
        return counters.h2d_bytes + counters.d2h_bytes;
    }
    std::string contents() const
    {
        std::string bytes(size, '?');
        GPU_CALL(cuMemcpyDtoH, bytes.data(), buffer_->address(), size);
        return bytes;
    }

    std::unique_ptr<gpu_vendor> gpus_;
    ibv_device **list_           = nullptr;
    ibv_context *context_        = nullptr;
    ibv_pd *pd_                  = nullptr;
    const verbs_functions verbs_ = find_verbs_functions();
    std::unique_ptr<staging_pool> pool_;
    std::unique_ptr<gpu::buffer> buffer_;
};

TEST_F(test_staging, the_nic_sees_what_is_on_the_gpu)
{
    auto staged = stage(12345, 1000);

    ASSERT_TRUE(staged);
    EXPECT_LE(1000u, staged->mr()->length);
    EXPECT_EQ(std::string(1000, 'g'), std::string(copy_of(staged), 1000));
    finish(staged);
}

TEST_F(test_staging, what_the_nic_wrote_goes_to_the_gpu)
{
    auto staged          = stage(0, size);
    std::string expected = contents();

    ASSERT_TRUE(staged);
    std::fill_n(copy_of(staged) + 777, 1001, 'n');
    std::fill_n(expected.begin() + 777, 1001, 'n');
    finish(staged);
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
    finish(staged);
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
    finish(first);
    finish(second);
    EXPECT_EQ(expected, contents());
}

// A send, which writes nothing.
TEST_F(test_staging, what_changed_on_the_gpu_meanwhile_stays)
{
    auto staged = stage(0, size);

    ASSERT_TRUE(staged);
    GPU_CALL(cuMemsetD8, buffer_->address(), 'x', size);
    finish(staged);
    EXPECT_EQ(std::string(size, 'x'), contents());
}

// UCX deals the pieces of a buffer to its rails in turn: one has the head and
// the tail, the other the middle.
class test_rails : public test_staging {
protected:
    static constexpr size_t head = 3840, tail = 80000;

    void check_two_rails(bool head_first)
    {
        auto ends            = stage(256, size - 256);
        auto middle          = stage(256, size - 256);
        std::string expected = contents();

        ASSERT_TRUE(ends && middle);
        std::fill_n(copy_of(ends), head, 'e');
        std::fill_n(copy_of(middle) + head, tail - head, 'm');
        std::fill(copy_of(ends) + tail, copy_of(ends) + size - 256, 'e');
        std::fill_n(expected.begin() + 256, size - 256, 'e');
        std::fill_n(expected.begin() + 256 + head, tail - head, 'm');
        finish(head_first ? ends : middle);
        finish(head_first ? middle : ends);
        EXPECT_EQ(expected, contents());
    }
};

TEST_F(test_rails, both_staged)
{
    check_two_rails(true);
}

TEST_F(test_rails, both_staged_the_other_way_round)
{
    check_two_rails(false);
}

// Pieces so short that the bytes around them are written back with them.
TEST_F(test_rails, the_other_one_writes_to_the_gpu)
{
    for (size_t gap : {1, 10, 5000}) {
        put(0, size, 'g');
        auto staged          = stage(0, size);
        std::string expected = contents();

        ASSERT_TRUE(staged);
        for (size_t at = 100; at + gap < size; at += 2 * gap) {
            std::fill_n(copy_of(staged) + at, gap, 's');
            std::fill_n(expected.begin() + static_cast<ptrdiff_t>(at), gap,
                        's');
        }
        // The other rail's bytes, after the copy was made.
        for (size_t i = 0; i < size; ++i) {
            if (expected[i] != 's') {
                expected[i] = static_cast<char>('a' + i % 7);
            }
        }
        GPU_CALL(cuMemcpyHtoD, buffer_->address(), expected.data(), size);
        finish(staged);
        EXPECT_EQ(expected, contents()) << "gap " << gap;
    }
}

// What a NIC may have in flight to the GPU must not even be read and written
// back, if there is much of it.
TEST_F(test_rails, what_is_long_unchanged_is_not_written)
{
    auto staged = stage(0, size);

    ASSERT_TRUE(staged);
    copy_of(staged)[0]        = 'n';
    copy_of(staged)[size - 1] = 'n';
    const uint64_t before     = copied();
    finish(staged);
    EXPECT_EQ(before + 4, copied()) << "two bytes there, and back";
}

// To send: from the GPU. To receive: from it, from it anew, and back.
TEST_F(test_staging, what_an_operation_copies)
{
    auto staged           = stage(0, size);
    const uint64_t before = copied();

    finish(staged);
    EXPECT_EQ(before, copied()) << "nothing was written";
    staged = stage(0, size);
    EXPECT_EQ(before + size, copied());
    std::fill_n(copy_of(staged), size, 'n');
    finish(staged);
    EXPECT_EQ(before + 3 * size, copied());
}

TEST_F(test_staging, an_operation_on_the_same_memory_costs_no_registration)
{
    auto staged         = stage(1000, 50000);
    const ibv_mr *mr    = staged->mr();
    const uint32_t lkey = mr->lkey;

    finish(staged);
    for (char value = 'a'; value < 'f'; ++value) {
        put(0, size, value);
        staged = stage(1000 + static_cast<size_t>(value - 'a'), 40000);
        ASSERT_TRUE(staged);
        EXPECT_EQ(mr, staged->mr());
        EXPECT_EQ(lkey, staged->mr()->lkey);
        EXPECT_EQ(std::string(40000, value),
                  std::string(copy_of(staged), 40000));
        put(0, size, 'x'); // by another rail
        copy_of(staged)[100] = 'n';
        finish(staged);
        EXPECT_EQ(size - 1,
                  static_cast<size_t>(std::ranges::count(contents(), 'x')));
        EXPECT_EQ('n', contents()[1100 + static_cast<size_t>(value - 'a')]);
    }
}

TEST_F(test_staging, a_buffer_serves_other_memory)
{
    gpu::buffer other(size);
    auto staged = stage(0, size);
    char *bytes = copy_of(staged);

    finish(staged);
    GPU_CALL(cuMemsetD8, other.address(), 'o', size);
    staged = pool_->start(other.address(), size);
    ASSERT_TRUE(staged);
    EXPECT_EQ(bytes - buffer_->address() % 4096,
              copy_of(staged) - other.address() % 4096);
    EXPECT_EQ(std::string(size, 'o'), std::string(copy_of(staged), size));
    finish(staged);
}

TEST_F(test_staging, two_operations_have_a_buffer_each)
{
    auto first  = stage(0, size);
    auto second = stage(0, size);

    ASSERT_TRUE(first && second);
    EXPECT_NE(first->mr()->lkey, second->mr()->lkey);
    EXPECT_NE(copy_of(first), copy_of(second));
    finish(first);
    finish(second);
}

TEST_F(test_staging, keys_that_were_invalidated_are_not_used_again)
{
    auto staged         = stage(0, size);
    const uint32_t lkey = staged->mr()->lkey;

    copy_of(staged)[5] = 'n';
    staged->invalidate();
    EXPECT_EQ(nullptr, staged->mr());
    finish(staged);
    EXPECT_EQ('n', contents()[5]);
    staged = stage(0, size);
    ASSERT_TRUE(staged);
    EXPECT_NE(lkey, staged->mr()->lkey);
    finish(staged);
}

TEST_F(test_staging, little_is_kept_idle)
{
    constexpr size_t large = staging_pool::max_idle_bytes / 4;
    gpu::buffer memory(large);
    std::vector<std::unique_ptr<staging_buffer>> all;

    for (size_t i = 0; i < 6; ++i) {
        all.push_back(pool_->start(memory.address(), large));
        ASSERT_TRUE(all.back());
    }
    for (auto &one : all) {
        finish(one);
        EXPECT_GE(pool_->idle_bytes(), large);
        EXPECT_LE(pool_->idle_bytes(), staging_pool::max_idle_bytes);
    }
    all.clear();
    for (size_t i = 0; i < 2 * staging_pool::max_idle; ++i) {
        all.push_back(stage(0, 1));
    }
    for (auto &one : all) {
        finish(one);
    }
    EXPECT_LE(pool_->idle_bytes(), staging_pool::max_idle * 2 * 4096);
}

// The limit of locked memory counts, as for a user who may not exceed it.
class locked_memory {
public:
    explicit locked_memory(rlim_t limit)
    {
        set_capability(false);
        getrlimit(RLIMIT_MEMLOCK, &before_);
        const rlimit now{limit, before_.rlim_max};
        setrlimit(RLIMIT_MEMLOCK, &now);
    }
    ~locked_memory()
    {
        setrlimit(RLIMIT_MEMLOCK, &before_);
        set_capability(true);
    }

private:
    static void set_capability(bool on)
    {
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct data[2];
        const uint32_t bit = 1u << CAP_IPC_LOCK;

        syscall(SYS_capget, &header, data);
        data[0].effective =
            on ? data[0].effective | bit : data[0].effective & ~bit;
        if (syscall(SYS_capset, &header, data) != 0) {
            throw std::runtime_error("capset failed");
        }
    }

    rlimit before_{};
};

TEST_F(test_staging, idle_buffers_give_way)
{
    gpu::buffer other(8 * size);
    locked_memory limit(8 * size + size / 2);
    auto staged = stage(0, size);

    ASSERT_TRUE(staged);
    finish(staged);
    EXPECT_NE(0u, pool_->idle_bytes());
    staged = pool_->start(other.address(), 8 * size);
    EXPECT_TRUE(staged);
    auto more = pool_->start(other.address(), 8 * size);
    EXPECT_FALSE(more) << "there is no limit";
    if (staged) {
        finish(staged);
    }
}

TEST_F(test_staging, memory_that_is_gone_cannot_be_staged)
{
    const uintptr_t address = buffer_->address();

    buffer_->release();
    EXPECT_FALSE(pool_->start(address, size));
}

} // namespace
