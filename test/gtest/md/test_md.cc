// SPDX-License-Identifier: BSD-3-Clause
//
// The decorated memory domain through UCT's own interface, as UCP uses it: in
// the lab, with the simulated GPU.
#include "memory_domain.h"
#include <common/fds.h>
#include <common/gpu.h>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

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

    memory_domain md_;
};

TEST_F(test_md, cuda_is_among_the_types_it_registers)
{
    EXPECT_TRUE(md_.attr().cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST));
    EXPECT_TRUE(md_.attr().cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
}

TEST_F(test_md, device_memory_is_registered)
{
    gpu::buffer buffer(4 * mib);
    const uint64_t before = exports();
    uct_mem_h memh        = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer.pointer(), mib, for_all, &memh));
    EXPECT_NE(0u, keys_of(memh).lkey);
    EXPECT_EQ(before + 1, exports());
    md_.dereg(memh);
}

TEST_F(test_md, an_allocation_is_registered_once)
{
    gpu::buffer buffer(8 * mib);
    const uint64_t before = exports();
    uint32_t lkey         = 0;

    for (size_t offset = 0; offset < 8 * mib; offset += mib / 2) {
        uct_mem_h memh = nullptr;
        ASSERT_EQ(UCS_OK,
                  md_.reg(reinterpret_cast<void *>(buffer.address() + offset),
                          1 + offset / 32, for_all, &memh));
        EXPECT_TRUE((lkey == 0) || (lkey == keys_of(memh).lkey));
        lkey = keys_of(memh).lkey;
        md_.dereg(memh);
    }
    EXPECT_EQ(before + 1, exports());
}

TEST_F(test_md, memory_at_a_used_address_is_registered_anew)
{
    auto buffer             = std::make_unique<gpu::buffer>(4 * mib);
    const uintptr_t address = buffer->address();
    const uint64_t before   = exports();
    uct_mem_h memh          = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer->pointer(), mib, for_all, &memh));
    md_.dereg(memh);
    buffer.reset();
    buffer = std::make_unique<gpu::buffer>(4 * mib);
    ASSERT_EQ(address, buffer->address());
    ASSERT_EQ(UCS_OK, md_.reg(buffer->pointer(), mib, for_all, &memh));
    EXPECT_EQ(before + 2, exports());
    md_.dereg(memh);
}

TEST_F(test_md, host_memory_is_passed_through)
{
    std::vector<char> host(mib);
    const uint64_t before = exports();
    uct_mem_h memh        = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(host.data(), host.size(), for_all, &memh));
    EXPECT_EQ(before, exports());
    EXPECT_NE(0u, md_.pack(memh));
    md_.dereg(memh);
}

TEST_F(test_md, pinned_host_memory_is_passed_through)
{
    const uint64_t before = exports();
    uct_mem_h memh        = nullptr;
    void *host            = nullptr;

    GPU_CALL(cuMemAllocHost, &host, mib);
    ASSERT_EQ(UCS_OK, md_.reg(host, mib, for_all, &memh));
    EXPECT_EQ(before, exports());
    md_.dereg(memh);
    GPU_CALL(cuMemFreeHost, host);
}

TEST_F(test_md, remote_keys_are_packed)
{
    gpu::buffer buffer(4 * mib);
    uct_mem_h memh = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer.pointer(), mib, for_all, &memh));
    EXPECT_EQ(keys_of(memh).rkey, static_cast<uint32_t>(md_.pack(memh)));
    md_.dereg(memh);
}

TEST_F(test_md, no_fd_stays_open)
{
    const int before = count_fds();
    gpu::buffer first(4 * mib);
    gpu::buffer second(100);
    gpu::segments third(3);
    uct_mem_h memh[3] = {};

    EXPECT_EQ(UCS_OK, md_.reg(first.pointer(), mib, for_all, &memh[0]));
    EXPECT_EQ(UCS_OK, md_.reg(second.pointer(), 100, for_all, &memh[1]));
    EXPECT_EQ(UCS_OK, md_.reg(reinterpret_cast<void *>(third.address()),
                              third.size(), for_all, &memh[2]));
    EXPECT_EQ(before, count_fds());
    for (uct_mem_h one : memh) {
        md_.dereg(one);
    }
}

// /sys/class/infiniband/<device>/hw_counters has none of soft-RoCE's regions;
// "rdma resource" has all.
TEST_F(test_md, close_deregisters_everything)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();
    {
        memory_domain other;
        uct_mem_h memh = nullptr;
        ASSERT_EQ(UCS_OK, other.reg(buffer.pointer(), mib, for_all, &memh));
        other.dereg(memh);
        EXPECT_EQ(before + 1, count_regions()) << "kept for the next use";
    }
    EXPECT_EQ(before, count_regions());
}

TEST_F(test_md, release_of_the_memory_deregisters_at_once)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();
    uct_mem_h memh   = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer.pointer(), mib, for_all, &memh));
    md_.dereg(memh);
    EXPECT_EQ(before + 1, count_regions());
    buffer.release();
    EXPECT_EQ(before, count_regions());
}

TEST_F(test_md, a_region_in_use_ends_with_its_memory)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();
    uct_mem_h memh   = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer.pointer(), mib, for_all, &memh));
    buffer.release();
    EXPECT_EQ(before, count_regions());
    md_.dereg(memh);
    EXPECT_EQ(before, count_regions());
}

TEST_F(test_md, two_domains_at_once)
{
    gpu::buffer buffer(4 * mib);
    memory_domain other;
    uct_mem_h first  = nullptr;
    uct_mem_h second = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer.pointer(), mib, for_all, &first));
    ASSERT_EQ(UCS_OK, other.reg(buffer.pointer(), mib, for_all, &second));
    EXPECT_NE(keys_of(first).lkey, keys_of(second).lkey);
    md_.dereg(first);
    other.dereg(second);
}

TEST_F(test_md, ranges_beyond_the_allocation_are_refused)
{
    gpu::buffer buffer(4 * mib);
    uct_mem_h memh = nullptr;

    EXPECT_NE(UCS_OK, md_.reg(buffer.pointer(), size_t{1} << 40,
                              for_all | UCT_MD_MEM_FLAG_HIDE_ERRORS, &memh));
}

TEST_F(test_md, failure_is_passed_on_where_ucp_has_another_path)
{
    gpu::buffer buffer(4 * mib);
    gpu::scoped_fail fail("cuMemGetHandleForAddressRange=801");
    uct_mem_h memh = nullptr;

    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              md_.reg(buffer.pointer(), mib,
                      for_all | UCT_MD_MEM_FLAG_HIDE_ERRORS, &memh));
    EXPECT_EQ(nullptr, memh);
}

// UCX takes the allocation's end from a cache that rounds it up.
TEST_F(test_md, an_end_that_was_rounded_up_is_taken)
{
    gpu::buffer buffer(2 * mib - 1);
    uct_mem_h memh = nullptr;

    ASSERT_EQ(UCS_OK, md_.reg(buffer.pointer(), 2 * mib, for_all, &memh));
    md_.dereg(memh);
}

TEST_F(test_md, a_failure_is_an_error)
{
    gpu::buffer buffer(4 * mib);
    gpu::scoped_fail fail("cuMemGetHandleForAddressRange=801");
    uct_mem_h memh = nullptr;

    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              md_.reg(buffer.pointer(), mib, for_all, &memh));
}

TEST_F(test_md, concurrent_registrations)
{
    gpu::buffer buffer(8 * mib);
    const uint64_t before = exports();
    std::vector<std::thread> threads;

    for (unsigned i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            for (unsigned n = 0; n < 200; ++n) {
                uct_mem_h memh = nullptr;
                ASSERT_EQ(UCS_OK, md_.reg(reinterpret_cast<void *>(
                                              buffer.address() + i * mib + n),
                                          mib, for_all, &memh));
                md_.dereg(memh);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_LE(exports() - before, 4u);
    EXPECT_GE(exports() - before, 1u);
}

// Last, as a hook that failed stays so: a runtime is loaded that cannot be
// hooked, and begins as all do.
class test_md_late : public test_md {};

TEST_F(test_md_late, a_hook_that_fails_switches_identity_checks_on)
{
    gpu::buffer buffer(4 * mib);
    const auto questions_of_a_use = [&] {
        auto *calls = gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls");
        const uint64_t before =
            calls("cuPointerGetAttribute") + calls("cuPointerGetAttributes");
        uct_mem_h memh = nullptr;
        EXPECT_EQ(UCS_OK, md_.reg(buffer.pointer(), mib, for_all, &memh));
        md_.dereg(memh);
        return calls("cuPointerGetAttribute") +
               calls("cuPointerGetAttributes") - before;
    };

    questions_of_a_use();
    EXPECT_EQ(0u, questions_of_a_use());
    const std::string build = getenv("top_builddir");
    ASSERT_NE(nullptr,
              dlopen((build + "/test/gtest/ucm/fake/libcudart-odd.so").c_str(),
                     RTLD_NOW));
    gpu::use();
    EXPECT_LT(0u, questions_of_a_use());
}

} // namespace
