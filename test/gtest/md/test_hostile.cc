// SPDX-License-Identifier: BSD-3-Clause
//
// Misuse by callers: it fails or works as far as possible, and leaks nothing.
// Runs in the lab, on each UCX.
#include "handle_params.h"
#include "memory_domain.h"
#include <common/fds.h>
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <lab/rxe_dmabuf.h>
#include <optional>
#include <vector>

namespace {

constexpr size_t mib = 1 << 20;

class test_hostile : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        regions_ = count_regions();
        fds_     = count_fds();
        md_.emplace();
    }
    // All memory is released before.
    void TearDown() override
    {
        md_.reset();
        EXPECT_EQ(regions_, count_regions());
        EXPECT_EQ(0u, live()) << "left to the kernel, when the device closed";
        EXPECT_EQ(fds_, count_fds());
    }

    static uint64_t live()
    {
        rxe_dmabuf_counters_t counters{};
        reinterpret_cast<decltype(rxe_dmabuf_counters) *>(
            dlsym(RTLD_DEFAULT, "rxe_dmabuf_counters"))(&counters);
        return counters.live;
    }
    static void *pointer(uintptr_t address)
    {
        return reinterpret_cast<void *>(address);
    }
    // Returns whether a registration works; it is deregistered at once.
    bool takes(void *address, size_t length, unsigned flags)
    {
        uct_mem_h memh            = nullptr;
        const ucs_status_t status = md_->reg(address, length, flags, &memh);

        EXPECT_EQ(status == UCS_OK, memh != nullptr);
        if (status == UCS_OK) {
            md_->dereg(memh);
        }
        return status == UCS_OK;
    }

    std::optional<memory_domain> md_;

private:
    int regions_ = 0, fds_ = 0;
};

constexpr unsigned quietly =
    UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_FLAG_HIDE_ERRORS;

TEST_F(test_hostile, ranges_that_are_none)
{
    gpu::buffer buffer(4 * mib);
    const uintptr_t end = buffer.address() + buffer.size();

    EXPECT_FALSE(takes(buffer.pointer(), 0, quietly));
    EXPECT_FALSE(takes(buffer.pointer(), SIZE_MAX, quietly));
    EXPECT_FALSE(takes(pointer(end - 1), SIZE_MAX - end + 1, quietly));
    EXPECT_FALSE(takes(pointer(end - 4096), 8192, quietly));
    EXPECT_FALSE(takes(pointer(UINTPTR_MAX - 1), 1, quietly));
    EXPECT_TRUE(takes(pointer(end - 1), 1, quietly));
}

// A UCX ignores flags that it does not know.
TEST_F(test_hostile, each_flag_by_itself)
{
    gpu::buffer buffer(4 * mib);

    for (unsigned bit = 0; bit < 32; ++bit) {
        constexpr unsigned gva = 11; // UCT_MD_MEM_GVA: all addresses
        if (bit != gva) {
            EXPECT_TRUE(takes(buffer.pointer(), mib, quietly | (1u << bit)))
                << "bit " << bit;
        }
    }
    EXPECT_TRUE(takes(buffer.pointer(), mib, ~(1u << 11)));
}

TEST_F(test_hostile, a_domain_is_closed_with_memory_registered)
{
    gpu::buffer buffer(4 * mib), other(4 * mib);
    std::vector<char> host(mib);

    md_->reg(buffer.address(), mib);
    md_->reg(buffer.address() + mib, mib);
    md_->pack(md_->reg(other.address(), mib));
    md_.reset();
    md_.emplace();
    EXPECT_TRUE(takes(buffer.pointer(), mib, quietly));
}

} // namespace
