// SPDX-License-Identifier: BSD-3-Clause
//
// What the memory domain says, over a fake uct_ib.
#include "fake_domain.h"
#include <algorithm>
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>
extern "C" {
#include <ucs/config/global_opts.h>
#include <ucs/debug/log.h>
}

namespace {

constexpr size_t mib = 1 << 20;
constexpr unsigned to_hide =
    UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS;
constexpr unsigned for_one = UCT_MD_MEM_ACCESS_RMA;

// Messages of one level that UCX would have printed.
ucs_log_level_t wanted;
std::vector<std::string> messages;

ucs_log_func_rc_t keep_message(const char *, unsigned, const char *,
                               ucs_log_level_t level,
                               const ucs_log_component_config_t *,
                               const char *pattern, va_list args)
{
    char line[1000];

    if (level == wanted) {
        vsnprintf(line, sizeof(line), pattern, args);
        messages.emplace_back(line);
    }
    return UCS_LOG_FUNC_RC_STOP;
}

class test_messages : public ::testing::Test {
protected:
    void SetUp() override
    {
        md_ = first_fake_domain();
        ucs_log_push_handler(keep_message);
    }
    void TearDown() override
    {
        md_.reset(); // the cache's thread is done
        ucs_log_pop_handler();
        ucs_global_opts.log_component.log_level = level_;
    }

    // Only those of this level are kept.
    static void listen(ucs_log_level_t level)
    {
        wanted = level;
        messages.clear();
        ucs_global_opts.log_component.log_level = std::max(level_, level);
    }
    static bool said(const char *text)
    {
        return std::ranges::any_of(messages, [&](const std::string &one) {
            return one.find(text) != std::string::npos;
        });
    }

    static inline const auto level_ = ucs_global_opts.log_component.log_level;
    std::unique_ptr<fake_domain> md_;
};

TEST_F(test_messages, a_range_that_leaves_gpu_memory_is_an_error)
{
    gpu::buffer buffer(4 * mib);

    for (unsigned flags : {unsigned{UCT_MD_MEM_ACCESS_ALL}, for_one, to_hide}) {
        for (size_t length : {size_t{1} << 40, UINTPTR_MAX - 1}) {
            uct_mem_h memh = nullptr;
            listen(UCS_LOG_LEVEL_ERROR);
            EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                      md_->reg(buffer.address(), length, &memh, flags));
            EXPECT_EQ((flags == to_hide) ? 0u : 1u, messages.size());
            EXPECT_EQ(flags != to_hide, said("go beyond"));
        }
    }
    EXPECT_EQ(0u, fake_ib::now.asked);
    EXPECT_TRUE(fake_ib::now.regions.empty());
}

TEST_F(test_messages, decisions_are_traced)
{
    gpu::buffer buffer(4 * mib);
    gpu::buffer other(mib);
    char host[100] = "";
    uct_mem_h memh = nullptr;
    uint32_t key   = 0;

    listen(UCS_LOG_LEVEL_TRACE);
    EXPECT_EQ(UCS_OK, md_->reg(reinterpret_cast<uintptr_t>(host), 100, &memh));
    EXPECT_TRUE(said("fake0: 100 bytes at")) << "passed on";
    EXPECT_EQ(UCS_OK, md_->dereg(memh));

    EXPECT_EQ(UCS_OK, md_->reg(buffer.address(), mib, &memh));
    EXPECT_EQ(UCS_OK, md_->pack(memh, UCT_MD_MKEY_PACK_FLAG_INVALIDATE, &key));
    EXPECT_TRUE(said("have a key of their own"));
    EXPECT_EQ(UCS_OK, md_->dereg(memh));

    listen(UCS_LOG_LEVEL_DEBUG);
    gpu::scoped_fail fail("cuMemGetHandleForAddressRange=801");
    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              md_->reg(other.address(), mib, &memh, to_hide));
    EXPECT_TRUE(said("left to UCP: Unsupported operation"));
    EXPECT_EQ(UCS_OK, md_->reg(other.address(), mib, &memh, for_one));
    EXPECT_TRUE(said("fake0: staging 1048576 bytes at"));
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

// As uverbs answers once a NIC was removed: to everything, for good. Its
// regions are nobody's any more, so what they were of is registered anew.
TEST_F(test_messages, a_nic_that_went_is_told_once_and_keeps_nothing)
{
    gpu::buffer first(mib), second(mib); // no other thread is told
    uct_mem_h memh = nullptr;

    ASSERT_EQ(UCS_OK, md_->reg(first.address(), mib, &memh));
    ASSERT_EQ(UCS_OK, md_->dereg(memh));
    ASSERT_EQ(1u, fake_ib::now.regions.size());

    listen(UCS_LOG_LEVEL_WARN);
    fake_ib::now.gone = true;
    EXPECT_EQ(UCS_ERR_IO_ERROR, md_->reg(second.address(), mib, &memh));
    EXPECT_EQ(UCS_ERR_IO_ERROR, md_->reg(second.address(), mib, &memh));
    EXPECT_TRUE(said("removed or reset"));
    const auto told = messages.size();
    first.release(); // deregisters
    EXPECT_EQ(told + 1, messages.size());
    EXPECT_TRUE(said("ibv_dereg_mr"));
    second.release(); // has nothing to deregister
    EXPECT_EQ(told + 1, messages.size());

    fake_ib::now.gone = false;
    for (ibv_mr *mr : fake_ib::now.regions) {
        delete mr; // the kernel's, which ended them with the NIC
    }
    fake_ib::now.regions.clear();
    gpu::buffer third(mib);
    ASSERT_EQ(UCS_OK, md_->reg(third.address(), mib, &memh));
    EXPECT_EQ(1u, fake_ib::now.regions.size());
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

// With the NIC, the range and the cause.
TEST_F(test_messages, what_the_cache_does_is_told)
{
    listen(UCS_LOG_LEVEL_DEBUG);
    gpu::buffer buffer(mib); // not so much that another thread is told
    uct_mem_h memh  = nullptr;
    const auto line = [&](const char *what, const char *end) {
        char text[100];
        snprintf(text, sizeof(text), "fake0: %s 0x%zx..0x%zx: %s", what,
                 size_t(buffer.address()), size_t(buffer.address() + mib), end);
        return std::string(text);
    };

    EXPECT_EQ(UCS_OK, md_->reg(buffer.address(), mib, &memh));
    EXPECT_TRUE(said(line("register", "Success").c_str()));
    EXPECT_TRUE(said("fake0: acquire 0x"));
    const std::string gone = line("deregister", "released");
    buffer.release();
    EXPECT_FALSE(said(gone.c_str())) << "in use";
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
    EXPECT_TRUE(said(gone.c_str()));
}

} // namespace
