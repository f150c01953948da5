// SPDX-License-Identifier: BSD-3-Clause
//
// The overridden memory domain with another vendor's GPU, over soft-RoCE in the
// lab. The process has no libcuda.
#include "memory_domain.h"
#include <algorithm>
#include <common/fds.h>
#include <dlfcn.h>
#include <gtest/contract/udmabuf_vendor.h>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/md/memory_domain.h>
#include <uct/ib_dmabuf/md/process_state.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>

namespace {

constexpr size_t mib    = 1 << 20;
constexpr size_t length = rdma_peer::length;

udmabuf_vendor *vendor; // the plug-in's

std::unique_ptr<ucx_ib_dmabuf::gpu_vendor> find_udmabuf()
{
    auto made = std::make_unique<udmabuf_vendor>();
    vendor    = made.get();
    return made;
}

// Enables the vendor before a domain is opened, as module.cc does for CUDA.
const bool enabled = [] {
    static bool good;
    ucx_ib_dmabuf::serve_new_instances(
        {[](ucx_ib_dmabuf::ucx_instance &instance) {
             good = ucx_ib_dmabuf::process_state::enable(instance.parser(),
                                                         find_udmabuf);
             return good;
         },
         ucx_ib_dmabuf::override_md, ucx_ib_dmabuf::do_gpu_atomic});
    return good;
}();

class test_vendor : public ::testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_TRUE(enabled && (vendor != nullptr));
        base_ = vendor->allocate(4 * mib);
    }
    void TearDown() override
    {
        if (base_ != 0) {
            vendor->release(base_);
        }
    }

    uct_mem_h reg(uintptr_t address)
    {
        return md_.reg(address, length, UCT_MD_MEM_ACCESS_ALL);
    }
    ibv_wc_status write(uintptr_t address, uct_mem_h memh)
    {
        return peer_.write(address, md_.pack(memh));
    }
    static bool all_are(char byte, uintptr_t address)
    {
        const auto *bytes = reinterpret_cast<const char *>(address);
        return std::all_of(bytes, bytes + length,
                           [&](char each) { return each == byte; });
    }

    memory_domain md_;
    rdma_peer peer_{md_};
    uintptr_t base_ = 0;
};

TEST_F(test_vendor, its_type_is_among_those_registered)
{
    EXPECT_TRUE(md_.attr().cap.reg_mem_types & UCS_BIT(vendor->memory_type()));
    EXPECT_FALSE(md_.attr().cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    EXPECT_EQ(nullptr, dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
}

TEST_F(test_vendor, the_nic_reaches_the_memory)
{
    const int fds    = count_fds();
    uct_mem_h first  = reg(base_ + 100);
    uct_mem_h second = reg(base_ + 2 * mib);

    EXPECT_EQ(keys_of(first).lkey, keys_of(second).lkey) << "registered once";
    EXPECT_EQ(fds, count_fds());
    EXPECT_EQ(IBV_WC_SUCCESS, write(base_ + 100, first));
    EXPECT_TRUE(all_are('n', base_ + 100));
    EXPECT_TRUE(all_are(0, base_ + 2 * mib));
    md_.dereg(first);
    md_.dereg(second);
}

TEST_F(test_vendor, segments_are_one_range)
{
    const uintptr_t run = vendor->allocate(mib, 2);
    uct_mem_h memh      = reg(run + mib - length / 2);

    EXPECT_EQ(IBV_WC_SUCCESS, write(run + mib - length / 2, memh));
    EXPECT_TRUE(all_are('n', run + mib - length / 2));
    md_.dereg(memh);
    vendor->release(run);
}

TEST_F(test_vendor, a_release_deregisters_at_once)
{
    const int before = count_regions();

    md_.dereg(reg(base_));
    EXPECT_EQ(before + 1, count_regions());
    vendor->release(base_);
    EXPECT_EQ(before, count_regions());
    base_ = 0;
}

TEST_F(test_vendor, host_memory_is_passed_on)
{
    std::vector<uint8_t> host(length);
    uct_mem_h memh = reg(reinterpret_cast<uintptr_t>(host.data()));

    EXPECT_EQ(IBV_WC_SUCCESS,
              write(reinterpret_cast<uintptr_t>(host.data()), memh));
    EXPECT_EQ(std::vector<uint8_t>(length, 'n'), host);
    md_.dereg(memh);
}

// Runs last, as events stay missed from then on.
class test_vendor_late : public test_vendor {};

TEST_F(test_vendor_late, missed_events_cost_no_byte)
{
    uct_mem_h memh = reg(base_);

    md_.dereg(memh);
    vendor->miss_events("the test says so");
    vendor->replace(base_);
    memh = reg(base_);
    EXPECT_EQ(IBV_WC_SUCCESS, write(base_, memh));
    EXPECT_TRUE(all_are('n', base_));
    md_.dereg(memh);
}

} // namespace
