// SPDX-License-Identifier: BSD-3-Clause
//
// The decorated memory domain through UCT's interface, as UCP uses it: in the
// lab, with the simulated GPU.
#include "memory_domain.h"
#include <common/fds.h>
#include <common/first_byte.h>
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <memory>

namespace {

constexpr size_t mib       = 1 << 20;
constexpr unsigned for_all = UCT_MD_MEM_ACCESS_ALL;

class test_md : public ::testing::Test {
protected:
    void SetUp() override { gpu::use(); }

    uint64_t exports() const
    {
        return gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls")(
            "cuMemGetHandleForAddressRange");
    }

    void use(uintptr_t address) { md_.dereg(md_.reg(address, mib, for_all)); }

    memory_domain md_;
};

TEST_F(test_md, memory_at_a_used_address_is_registered_anew)
{
    auto buffer             = std::make_unique<gpu::buffer>(4 * mib);
    const uintptr_t address = buffer->address();
    const uint64_t before   = exports();

    use(address);
    buffer.reset();
    buffer = std::make_unique<gpu::buffer>(4 * mib);
    ASSERT_EQ(address, buffer->address());
    use(address);
    EXPECT_EQ(before + 2, exports());
}

TEST_F(test_md, no_fd_stays_open)
{
    const int before = count_fds();
    gpu::buffer first(4 * mib);
    gpu::buffer second(100);
    gpu::segments third(3);
    const uct_mem_h all[] = {md_.reg(first.address(), mib, for_all),
                             md_.reg(second.address(), 100, for_all),
                             md_.reg(third.address(), third.size(), for_all)};

    EXPECT_EQ(before, count_fds());
    for (uct_mem_h one : all) {
        md_.dereg(one);
    }
}

// /sys/class/infiniband/<device>/hw_counters lacks soft-RoCE's regions; "rdma
// resource" lists all.
TEST_F(test_md, close_deregisters_everything)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();
    {
        memory_domain other;
        other.dereg(other.reg(buffer.address(), mib, for_all));
        EXPECT_EQ(before + 1, count_regions()) << "kept for the next use";
    }
    EXPECT_EQ(before, count_regions());
}

TEST_F(test_md, release_of_the_memory_deregisters_at_once)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();

    use(buffer.address());
    EXPECT_EQ(before + 1, count_regions());
    buffer.release();
    EXPECT_EQ(before, count_regions());
}

// Runs last, as an overwritten hook counts as missing for good.
class test_md_late : public test_md {};

TEST_F(test_md_late, a_hook_that_fails_switches_identity_checks_on)
{
    gpu::buffer buffer(4 * mib);
    const auto questions_of_a_use = [&] {
        auto *calls = gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls");
        const uint64_t before =
            calls("cuPointerGetAttribute") + calls("cuPointerGetAttributes");
        use(buffer.address());
        return calls("cuPointerGetAttribute") +
               calls("cuPointerGetAttributes") - before;
    };

    questions_of_a_use();
    EXPECT_EQ(0u, questions_of_a_use());
    std::unique_ptr<gpu::buffer> other;
    {
        using ucx_ib_dmabuf::test::first_byte;
        const first_byte breakpoint(gpu::entry<void>("cuMemFree_v2"), 0xcc);
        other = std::make_unique<gpu::buffer>(mib);
        questions_of_a_use();
    }
    EXPECT_LT(0u, questions_of_a_use());
}

} // namespace
