// SPDX-License-Identifier: BSD-3-Clause
//
// The overridden memory domain over a fake uct_ib: which of them registers,
// which keys are packed, and the effects of an invalidation.
#include "fake_domain.h"
#include <array>
#include <atomic>
#include <barrier>
#include <common/elsewhere.h>
#include <common/fds.h>
#include <gtest/gtest.h>
#include <set>
#include <thread>
#include <unistd.h>

namespace {

constexpr size_t mib        = 1 << 20;
const size_t page           = size_t(sysconf(_SC_PAGESIZE));
constexpr unsigned aloud    = ucx::access_rma;
constexpr unsigned to_hide  = ucx::access_all | ucx::hide_errors;
constexpr unsigned revoking = ucx::invalidate;

class test_domain : public domain_test {
protected:
    void SetUp() override { ASSERT_TRUE(md_->takes_cuda()); }

    // Expects that a registration is passed on to uct_ib, with uct_ib's result.
    void expect_passed_on(uintptr_t address, size_t length)
    {
        for (unsigned flags : {to_hide, aloud}) {
            uct_mem_h memh       = nullptr;
            const unsigned asked = fake_ib::now.asked;
            EXPECT_EQ(UCS_OK, md_->reg(address, length, &memh, flags));
            EXPECT_EQ(asked + 1, fake_ib::now.asked);
            EXPECT_EQ(1u, fake_ib::now.host);
            if (memh != nullptr) {
                EXPECT_EQ(UCS_OK, md_->dereg(memh));
            }
            fake_ib::now.fail = UCS_ERR_IO_ERROR;
            EXPECT_EQ(UCS_ERR_IO_ERROR,
                      md_->reg(address, length, &memh, flags));
            fake_ib::now.fail = UCS_OK;
        }
        EXPECT_TRUE(fake_ib::now.regions.empty());
    }
    uint32_t pack(uct_mem_h memh, unsigned flags = 0)
    {
        uint32_t key = 0;
        EXPECT_EQ(UCS_OK, md_->pack(memh, flags, &key));
        EXPECT_NE(nullptr, fake_ib::find(key));
        return key;
    }
};

// Host memory that CUDA may know in part, as in a hostile buffer.
constexpr unsigned pages = 3;
char *const host = static_cast<char *>(aligned_alloc(page, pages *page));

// Tests each combination of pinned pages.
TEST_F(test_domain, host_memory_that_is_pinned_in_part_is_passed_on)
{
    for (unsigned pinned = 1; pinned < 1 << pages; ++pinned) {
        const auto each_pinned = [&](auto call) {
            for (unsigned i = 0; i < pages; ++i) {
                if ((pinned >> i & 1) != 0) {
                    call(host + i * page);
                }
            }
        };
        each_pinned([](char *at) { GPU_CALL(cuMemHostRegister, at, page, 0); });
        expect_passed_on(reinterpret_cast<uintptr_t>(host), pages * page);
        each_pinned([](char *at) { GPU_CALL(cuMemHostUnregister, at); });
    }
}

TEST_F(test_domain, what_is_no_memory_of_the_gpu_is_passed_on)
{
    CUdeviceptr address = 0;
    gpu::buffer buffer(4 * mib);
    const uintptr_t released = buffer.address();

    GPU_CALL(cuMemAllocManaged, &address, mib, CU_MEM_ATTACH_GLOBAL);
    expect_passed_on(address, mib);
    expect_passed_on(address, mib + page);
    GPU_CALL(cuMemFree, address);
    buffer.release();
    expect_passed_on(released, mib);
    expect_passed_on(UINTPTR_MAX - page + 1, page);
    expect_passed_on(UINTPTR_MAX - page + 1, 2 * page);
    expect_passed_on(page, 0);
}

TEST_F(test_domain, no_fd_stays_open)
{
    const gpu::buffer first(4 * mib), second(100);
    const gpu::segments third(3);
    const int open         = count_fds();
    const uct_mem_h each[] = {md_->reg(first.address(), mib),
                              md_->reg(second.address(), 100),
                              md_->reg(third.address(), third.size())};

    EXPECT_EQ(open, count_fds());
    for (uct_mem_h one : each) {
        EXPECT_EQ(UCS_OK, md_->dereg(one));
    }
}

// Also those whose handles the user has forgotten.
TEST_F(test_domain, a_closed_domain_deregisters_all)
{
    const gpu::buffer pool(4 * mib), other(mib);
    static uct_mem_h forgotten[2]; // no leak for a sanitizer

    EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(other.address(), mib)));
    for (uct_mem_h &each : forgotten) {
        each = md_->reg(pool.address(), mib);
    }
    EXPECT_EQ(2u, fake_ib::now.regions.size());
    md_.reset();
    EXPECT_TRUE(fake_ib::now.regions.empty());
}

// A child cannot call CUDA, and registers nothing in the parent's domain.
TEST_F(test_domain, a_forked_process_passes_on)
{
    EXPECT_TRUE(in_child([&] {
        expect_passed_on(reinterpret_cast<uintptr_t>(host), page);
        return !HasFailure();
    }));
}

// As those of a UCX that is newer than the plug-in.
TEST_F(test_domain, operations_that_are_not_known_stay_uct_ibs)
{
    using namespace ucx_ib_dmabuf;
    const std::set<size_t> overridden{op_close, op_query, op_mem_reg,
                                      op_mem_dereg, op_mkey_pack};

    for (size_t i = 0; i < max_md_ops; ++i) {
        EXPECT_EQ(overridden.contains(i), md_->get()->ops[i] != fake_ib::ops[i])
            << i;
    }
}

TEST_F(test_domain, a_null_handle_is_an_error)
{
    uct_md_mem_dereg_params_t params{};
    uint32_t key = 0;
    completion told;

    EXPECT_EQ(UCS_ERR_INVALID_PARAM, md_->dereg(nullptr));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, md_->dereg(params));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, md_->invalidate(nullptr, &told));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, md_->pack(nullptr, 0, &key));
    EXPECT_EQ(0u, told.told);
}

// UCT_MD_MEM_GVA is for paging, of all addresses. A caller's dma-buf may be of
// any memory.
TEST_F(test_domain, all_addresses_and_the_callers_dmabufs_are_passed_on)
{
    using namespace ucx_ib_dmabuf;
    gpu::buffer pool(4 * mib);
    uct_mem_h memh = nullptr;

    EXPECT_EQ(fake_ib::other_flags, md_->query().flags) << "UCP has none";
    for (const uct_md_mem_reg_params_t &params :
         {uct_md_mem_reg_params_t{
              UCT_MD_MEM_REG_FIELD_DMABUF_FD, 0, STDIN_FILENO, 0, {}},
          {UCT_MD_MEM_REG_FIELD_FLAGS, UCT_MD_MEM_GVA, 0, 0, {}}}) {
        EXPECT_EQ(UCS_OK, md_->reg(pool.address(), page, &memh, params));
        EXPECT_EQ(UCS_OK, md_->dereg(memh));
        EXPECT_TRUE(fake_ib::now.regions.empty()) << "none of it is kept";
    }
    EXPECT_EQ(STDIN_FILENO, fake_ib::now.reg_params.dmabuf_fd);
    EXPECT_EQ(UCS_OK, md_->reg(pool.address(), page, &memh,
                               {0, UCT_MD_MEM_GVA, 0, 0, {}}));
    EXPECT_EQ(1u, fake_ib::now.asked) << "flags that are not given";
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

TEST_F(test_domain, a_completion_is_called_after_an_invalidation_only)
{
    gpu::buffer pool(mib);

    for (const uintptr_t address :
         {pool.address(), reinterpret_cast<uintptr_t>(host)}) {
        completion told;
        auto other  = invalidating(md_->reg(address, page), &told);
        other.flags = 0;
        EXPECT_EQ(UCS_OK, md_->dereg(other));
        EXPECT_EQ(0u, told.told);
        EXPECT_EQ(UCS_OK, md_->invalidate(md_->reg(address, page), &told));
        EXPECT_EQ(1u, told.told);
    }
}

TEST_F(test_domain, one_user_invalidates_while_another_goes_on)
{
    gpu::buffer pool(4 * mib);
    const uintptr_t address = pool.address() + mib + 100;
    uct_mem_h first         = nullptr;
    ASSERT_EQ(UCS_OK, md_->reg(address, page, &first, aloud));
    EXPECT_EQ(to_hide, fake_ib::now.reg_params.flags) << "others use it, too";
    uct_mem_h second          = md_->reg(address, page);
    uct_mem_h other           = md_->reg(pool.address() + 2 * mib, page);
    const uint32_t first_key  = pack(first, revoking);
    const uint32_t second_key = pack(second, revoking);
    const uint32_t other_key  = pack(other);
    uint32_t shared           = 0;
    completion told;

    EXPECT_NE(first_key, second_key);
    EXPECT_EQ(first_key, pack(first, revoking)) << "the same when asked again";
    EXPECT_EQ(revoking, fake_ib::now.packed.flags);
    EXPECT_EQ(SIZE_MAX, fake_ib::now.packed.length);
    EXPECT_EQ(UCS_OK, md_->pack(first, {0, revoking}, &shared));
    EXPECT_EQ(other_key, shared) << "flags that are not given";
    // The key covers only the pages that the user asked for.
    const ibv_mr *mr = fake_ib::find(first_key);
    EXPECT_EQ(pool.address() + mib, reinterpret_cast<uintptr_t>(mr->addr));
    EXPECT_EQ(2 * page, mr->length);

    EXPECT_EQ(UCS_OK, md_->invalidate(first, &told));
    EXPECT_EQ(1u, told.told);
    EXPECT_EQ(nullptr, fake_ib::find(first_key));
    EXPECT_NE(nullptr, fake_ib::find(second_key));
    EXPECT_EQ(UCS_OK, md_->dereg(second));
    EXPECT_EQ(nullptr, fake_ib::find(second_key));
    EXPECT_EQ(UCS_OK, md_->dereg(other));
    EXPECT_NE(nullptr, fake_ib::find(other_key)) << "kept for the next use";
    EXPECT_EQ(1u, fake_ib::now.regions.size());
}

// A peer with the shared key would reach the memory after an invalidation.
TEST_F(test_domain, without_room_there_is_no_key_to_invalidate)
{
    gpu::buffer pool(4 * mib);
    uct_mem_h failed        = md_->reg(pool.address(), mib);
    uint32_t key            = 0;
    fake_ib::now.fail_verbs = ENOMEM;
    completion told;

    EXPECT_EQ(UCS_ERR_NO_RESOURCE, md_->pack(failed, revoking, &key));
    EXPECT_EQ(UCS_OK, md_->pack(failed, 0, &key));
    EXPECT_EQ(UCS_OK, md_->invalidate(failed, &told));
    EXPECT_EQ(1u, told.told);
}

TEST_F(test_domain, what_is_idle_makes_room_for_a_key_to_invalidate)
{
    gpu::buffer pool(4 * mib), idle(mib);
    uct_mem_h used = md_->reg(pool.address(), mib);
    EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(idle.address(), mib)));
    fake_ib::now.during_reg = [] {
        fake_ib::now.fail_verbs = fake_ib::now.regions.size() < 2 ? 0 : ENOMEM;
    };
    const int open = count_fds();

    pack(used, revoking);
    EXPECT_EQ(2u, fake_ib::now.regions.size());
    EXPECT_EQ(open, count_fds());
    EXPECT_EQ(UCS_OK, md_->dereg(used));
}

// The memory is small, so the releasing thread deregisters it.
TEST_F(test_domain, memory_may_go_before_the_key_of_its_own)
{
    gpu::buffer pool(mib);
    uct_mem_h memh     = md_->reg(pool.address(), mib);
    const uint32_t key = pack(memh, revoking);
    uint32_t another   = 0;
    completion told;

    pool.release();
    EXPECT_NE(nullptr, fake_ib::find(key));
    for (unsigned flags : {revoking, 0u}) {
        EXPECT_EQ(UCS_ERR_NO_ELEM, md_->pack(memh, flags, &another));
    }
    EXPECT_EQ(UCS_OK, md_->invalidate(memh, &told));
    EXPECT_EQ(1u, told.told);
    EXPECT_TRUE(fake_ib::now.regions.empty());
}

// Another thread releases the memory meanwhile.
TEST_F(test_domain, a_registration_stays_while_its_key_is_packed)
{
    gpu::buffer pool(mib);
    uct_mem_h memh = md_->reg(pool.address(), mib);
    std::atomic<bool> packing{false}, released{false};
    uint32_t key = 0;
    std::thread other;

    fake_ib::now.during_dereg = [&] { EXPECT_FALSE(packing); };
    fake_ib::now.during_pack  = [&] {
        packing = true;
        other   = std::thread([&] {
            gpu::use();
            released = true;
            pool.release();
        });
        for (int i = 0; (i < 100) || !released; ++i) {
            usleep(1000); // time for the release to reach dereg
        }
        packing = false;
    };
    EXPECT_EQ(UCS_OK, md_->pack(memh, 0, &key));
    other.join();
    fake_ib::now.during_pack = fake_ib::now.during_dereg = nullptr;
    EXPECT_TRUE(fake_ib::now.regions.empty());
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

TEST_F(test_domain, two_threads_pack_one_handle)
{
    gpu::buffer pool(4 * mib);
    uct_mem_h memh = md_->reg(pool.address(), mib);
    std::barrier both(2);
    std::array<uint32_t, 2> keys{};

    // Each thread finds no key yet, and registers.
    fake_ib::now.during_reg = [&] { both.arrive_and_wait(); };
    in_threads(2, [&](unsigned i) {
        EXPECT_EQ(UCS_OK, md_->pack(memh, revoking, &keys[i]));
    });
    fake_ib::now.during_reg = nullptr;
    EXPECT_EQ(keys[0], keys[1]);
    EXPECT_NE(nullptr, fake_ib::find(keys[0]));
    EXPECT_EQ(2u, fake_ib::now.regions.size());
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
    EXPECT_EQ(1u, fake_ib::now.regions.size());
}

} // namespace
