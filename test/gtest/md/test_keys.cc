// SPDX-License-Identifier: BSD-3-Clause
//
// The memory that the domain's keys reach, in the lab: RDMA operations in the
// domain's own protection domain.
#include "handle_params.h"
#include "memory_domain.h"
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <lab/soft_roce.h>

namespace {

constexpr size_t mib    = 1 << 20;
constexpr size_t length = 10000;

class test_keys : public ::testing::Test {
protected:
    void SetUp() override { gpu::use(); }

    uct_mem_h reg(uintptr_t address) { return md_.reg(address, length); }
    uint32_t pack(uct_mem_h memh)
    {
        return static_cast<uint32_t>(md_.pack(memh));
    }
    // uct_ib's verbs domains refuse a revocable key, and soft-RoCE is not an
    // mlx5 device.
    void expect_no_own_key(uct_mem_h memh, uintptr_t address)
    {
        uint64_t packed = 0;
        EXPECT_EQ(
            UCS_ERR_UNSUPPORTED,
            md_.pack(
                memh, reinterpret_cast<void *>(address), length,
                packing(ucx_ib_dmabuf::UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA),
                &packed));
    }
    void invalidate(uct_mem_h memh, completion *told)
    {
        const auto params = invalidating(memh, told);
        EXPECT_EQ(UCS_OK, md_.dereg(params));
    }
    // Writes as a peer with that key. Returns the completion's status.
    ibv_wc_status write(uintptr_t address, uint32_t key)
    {
        return nic_.transfer(IBV_WR_RDMA_WRITE, host_.data(), host_mr_->lkey,
                             address, key, length);
    }
    static bool all_are(char byte, uintptr_t address)
    {
        std::string bytes(length, '?');
        GPU_CALL(cuMemcpyDtoH, bytes.data(), address, length);
        return bytes == std::string(length, byte);
    }

    memory_domain md_;
    ucx_ib_dmabuf::test::nic nic_{md_.pd()};
    std::vector<uint8_t> host_           = std::vector<uint8_t>(length, 'n');
    ucx_ib_dmabuf::test::region host_mr_ = nic_.reg(host_);
};

TEST_F(test_keys, one_user_invalidates_while_another_goes_on)
{
    gpu::buffer pool(4 * mib);
    const uintptr_t failed_at = pool.address() + mib + 100;
    const uintptr_t other_at  = pool.address() + 2 * mib;
    uct_mem_h failed          = reg(failed_at);
    uct_mem_h other           = reg(other_at);
    const uint32_t other_key  = pack(other);
    completion told;

    expect_no_own_key(failed, failed_at);
    invalidate(failed, &told);
    EXPECT_EQ(1u, told.told);
    GPU_CALL(cuMemsetD8, pool.address(), 'g', pool.size());
    EXPECT_EQ(IBV_WC_SUCCESS, write(other_at, other_key));
    EXPECT_TRUE(all_are('n', other_at));
    md_.dereg(other);
}

TEST_F(test_keys, a_key_dies_with_the_memory)
{
    auto pool               = std::make_unique<gpu::buffer>(4 * mib);
    const uintptr_t address = pool->address();
    const int before        = count_regions();
    uct_mem_h memh          = reg(address);
    const uint32_t key      = pack(memh);
    completion told;

    EXPECT_EQ(IBV_WC_SUCCESS, write(address, key));
    pool->release();
    EXPECT_EQ(before, count_regions());
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, write(address, key));
    invalidate(memh, &told);
    EXPECT_EQ(1u, told.told);
    EXPECT_EQ(before, count_regions());
}

} // namespace
