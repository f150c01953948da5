// SPDX-License-Identifier: BSD-3-Clause
//
// A transport's report of a failed endpoint: UCP gets it as without the
// plug-in. If a registration may be the cause, the memory is registered again.
#include "fake_domain.h"
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <uct/ib_dmabuf/md/process_state.h>

using ucx_ib_dmabuf::process_state;
using ucx_ib_dmabuf::uct_ep_h;
using ucx_ib_dmabuf::uct_iface_h;
using ucx_ib_dmabuf::uct_iface_params_t;

namespace {

// So small that the thread which drops a region also deregisters it.
constexpr size_t size = 64 << 10;

// UCS_ERR_*
constexpr ucs_status_t unreachable{-6}, connection_reset{-25},
    endpoint_timeout{-80};

// The last call of UCP's handler, and its result.
struct {
    unsigned calls       = 0;
    void *arg            = nullptr;
    uct_ep_h ep          = nullptr;
    ucs_status_t status  = UCS_OK;
    size_t regions       = 0; // registered at that time
    ucs_status_t answers = UCS_OK;
} told;

ucs_status_t ucp_handler(void *arg, uct_ep_h ep, ucs_status_t status)
{
    told.calls += 1;
    told.arg     = arg;
    told.ep      = ep;
    told.status  = status;
    told.regions = fake_ib::now.regions.size();
    return told.answers;
}

// Has a path between the NIC and a GPU be found broken.
void break_path(const char *nic)
{
    using namespace ucx_ib_dmabuf;

    nic_paths &paths = process_state::existing()->paths().of(nic);
    path &which      = paths.pair(7, reg_method::standard).of(reg_method::pcie);
    paths.check(&which, 7, reg_method::pcie, [] {
        return check_result{path_state::broken, "a test"};
    });
}

class test_failures : public domain_test {
protected:
    void SetUp() override
    {
        told = {};
        ASSERT_TRUE(md_->takes_cuda());
        params_.field_mask           = uct_iface_params_t::known_fields;
        params_.open_mode            = uct_iface_params_t::mode_device;
        params_.mode.device.tl_name  = "fake";
        params_.mode.device.dev_name = "fake0:1";
        params_.rx_headroom          = 17;
        params_.err_handler_arg      = this;
        params_.err_handler          = ucp_handler;
        params_.err_handler_flags    = 1;
        params_.features             = 5;
    }

    // Opens an interface as uct_iface_open() does.
    ucs_status_t open()
    {
        uct_iface_h iface = nullptr;
        return fake_ib::transport.iface_open(md_->get(), nullptr, &params_,
                                             nullptr, &iface);
    }
    // Fails the endpoint as uct_iface_handle_ep_err() does.
    ucs_status_t fail(ucs_status_t status)
    {
        return fake_ib::now.opened.err_handler(
            fake_ib::now.opened.err_handler_arg, ep_, status);
    }
    void use(const gpu::buffer &memory)
    {
        EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(memory.address(), size)));
    }

    const uct_ep_h ep_ = reinterpret_cast<uct_ep_h>(this + 1);
    uct_iface_params_t params_{};
};

TEST_F(test_failures, ucp_is_told_once_and_what_is_registered_goes_before)
{
    for (ucs_status_t status : {UCS_ERR_IO_ERROR, UCS_ERR_CANCELED}) {
        const gpu::buffer first(size), second(size);
        use(first);
        use(second);
        EXPECT_EQ(2u, fake_ib::now.regions.size());
        ASSERT_EQ(UCS_OK, open());
        for (ucs_status_t answer : {UCS_OK, UCS_ERR_NO_MEMORY}) {
            told         = {};
            told.answers = answer;
            EXPECT_EQ(answer, fail(status));
            EXPECT_EQ(1u, told.calls);
            EXPECT_EQ(this, told.arg);
            EXPECT_EQ(ep_, told.ep);
            EXPECT_EQ(status, told.status);
            EXPECT_EQ(0u, told.regions);
        }
        use(first);
        EXPECT_EQ(1u, fake_ib::now.regions.size());
    }
}

TEST_F(test_failures, other_failures_leave_what_is_registered)
{
    const gpu::buffer memory(size);

    use(memory);
    ASSERT_EQ(UCS_OK, open());
    for (ucs_status_t status :
         {endpoint_timeout, connection_reset, unreachable, UCS_ERR_NO_MEMORY}) {
        told = {};
        EXPECT_EQ(UCS_OK, fail(status));
        EXPECT_EQ(1u, told.calls);
        EXPECT_EQ(status, told.status);
        EXPECT_EQ(1u, told.regions);
    }
}

TEST_F(test_failures, all_else_reaches_the_transport_that_was_named)
{
    const uct_iface_params_t before = params_;

    for (const char *name : {"fake", "other"}) {
        params_.mode.device.tl_name = name;
        ASSERT_EQ(UCS_OK, open());
        const uct_iface_params_t &opened = fake_ib::now.opened;
        EXPECT_STREQ(name, fake_ib::now.open_by);
        EXPECT_EQ(before.field_mask, opened.field_mask);
        EXPECT_EQ(before.open_mode, opened.open_mode);
        EXPECT_EQ(name, opened.mode.device.tl_name);
        EXPECT_EQ(before.mode.device.dev_name, opened.mode.device.dev_name);
        EXPECT_EQ(before.rx_headroom, opened.rx_headroom);
        EXPECT_EQ(before.err_handler_flags, opened.err_handler_flags);
        EXPECT_EQ(before.features, opened.features);
        EXPECT_EQ(before.err_handler, params_.err_handler); // the caller's
    }
    params_.open_mode           = 0; // not of a device
    params_.mode.device.tl_name = nullptr;
    EXPECT_EQ(UCS_OK, open());
    params_                     = before;
    params_.mode.device.tl_name = "none";
    EXPECT_EQ(UCS_ERR_NO_DEVICE, open());
    params_.mode.device.tl_name = "fake";
    fake_ib::now.fail_open      = UCS_ERR_UNSUPPORTED;
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, open());
}

// There may be no handler, or unknown parameters: a newer UCX's structure is
// longer.
TEST_F(test_failures, other_parameters_are_passed_on_untouched)
{
    constexpr uint64_t known = uct_iface_params_t::known_fields;

    for (uint64_t fields : {known - uct_iface_params_t::field_err_handler,
                            known, known + known + 1}) {
        params_.field_mask  = fields;
        params_.err_handler = (fields == known) ? nullptr : ucp_handler;
        ASSERT_EQ(UCS_OK, open());
        EXPECT_EQ(fields, fake_ib::now.opened.field_mask);
        EXPECT_EQ(params_.err_handler, fake_ib::now.opened.err_handler);
        EXPECT_EQ(this, fake_ib::now.opened.err_handler_arg);
    }
}

TEST_F(test_failures, a_handler_without_an_argument_gets_none)
{
    params_.field_mask &= ~uint64_t{uct_iface_params_t::field_err_handler_arg};
    ASSERT_EQ(UCS_OK, open());
    EXPECT_EQ(UCS_OK, fail(UCS_ERR_IO_ERROR));
    EXPECT_EQ(1u, told.calls);
    EXPECT_EQ(nullptr, told.arg);
}

// Each of two workers has its own handler. Interfaces of one worker share it.
TEST_F(test_failures, each_worker_is_told_of_its_own)
{
    ASSERT_EQ(UCS_OK, open());
    const uct_iface_params_t mine = fake_ib::now.opened;
    ASSERT_EQ(UCS_OK, open());
    EXPECT_EQ(mine.err_handler_arg, fake_ib::now.opened.err_handler_arg);
    params_.err_handler_arg = &params_;
    ASSERT_EQ(UCS_OK, open());
    EXPECT_EQ(UCS_OK, fail(connection_reset));
    EXPECT_EQ(&params_, told.arg);
    EXPECT_EQ(UCS_OK,
              mine.err_handler(mine.err_handler_arg, ep_, UCS_ERR_IO_ERROR));
    EXPECT_EQ(this, told.arg);
}

// The device itself may have failed, so all its open domains drop their
// regions. A closed domain is not notified.
TEST_F(test_failures, what_all_domains_of_the_device_have_goes)
{
    const gpu::buffer memory(size);
    std::optional<fake_domain> other(std::in_place), closed(std::in_place);
    fake_domain elsewhere("fake1");
    const auto use_in = [&](fake_domain &domain) {
        EXPECT_EQ(UCS_OK, domain.dereg(domain.reg(memory.address(), size)));
    };

    for (fake_domain *each : {&*md_, &*other, &*closed, &elsewhere}) {
        use_in(*each);
    }
    EXPECT_EQ(4u, fake_ib::now.regions.size());
    closed.reset();
    EXPECT_EQ(3u, fake_ib::now.regions.size());
    ASSERT_EQ(UCS_OK, open());
    EXPECT_EQ(UCS_OK, fail(UCS_ERR_IO_ERROR));
    EXPECT_EQ(1u, told.regions) << "another device's";
    use_in(*other);
    EXPECT_EQ(2u, fake_ib::now.regions.size());
    other.reset();
    EXPECT_EQ(1u, fake_ib::now.regions.size());
}

// Earlier registrations may use the broken path.
TEST_F(test_failures, registrations_are_dropped_if_a_path_is_broken)
{
    fake_domain other;
    const gpu::buffer memory(size);
    use(memory);
    EXPECT_EQ(UCS_OK, other.dereg(other.reg(memory.address(), size)));
    EXPECT_EQ(2u, fake_ib::now.regions.size());
    break_path("fake0");
    EXPECT_EQ(0u, fake_ib::now.regions.size());
}

// A kernel module registers peer memory, over the same path.
TEST_F(test_failures, peer_memory_takes_what_no_dmabuf_does)
{
    const gpu::buffer memory(1000);
    uct_mem_h memh = nullptr;
    fake_ib::now.memory_types |= 1u << ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA;
    fake_ib::now.fail_verbs = EINVAL;
    break_path("peer1");
    fake_domain peer("peer0"), broken("peer1");

    EXPECT_TRUE(peer.takes_cuda());
    EXPECT_FALSE(broken.takes_cuda());
    ASSERT_EQ(UCS_OK, peer.reg(memory.address(), 1024, &memh));
    EXPECT_EQ(1000u, static_cast<fake_ib::memory *>(memh)->length);
    EXPECT_EQ(UCS_OK, peer.dereg(memh));
    break_path("peer0");
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              peer.reg(memory.address(), 1000, &memh, ucx::hide_errors));
    EXPECT_EQ(1u, fake_ib::now.asked);
}

// No proof is possible here. It is tried three times, and three times more
// after a failure.
TEST_F(test_failures, paths_are_looked_at_again)
{
    static unsigned looked;
    const auto look = [&] {
        looked = 0;
        for (int i = 0; i < 5; ++i) {
            const gpu::buffer memory(size);
            use(memory);
        }
        return looked;
    };

    ucx::set_log_level("info");
    ucs_log_push_handler([](const char *, unsigned, const char *, int,
                            const void *, const char *format, va_list args) {
        char line[1024];
        vsnprintf(line, sizeof(line), format, args);
        looked += strstr(line, ": not proven: ") != nullptr;
        return 0;
    });
    ASSERT_EQ(UCS_OK, open());
    fail(UCS_ERR_IO_ERROR);
    EXPECT_EQ(3u, look());
    EXPECT_EQ(0u, look());
    fail(connection_reset);
    EXPECT_EQ(0u, look());
    fail(UCS_ERR_CANCELED);
    EXPECT_EQ(3u, look());
    ucs_log_pop_handler();
    ucx::set_log_level("warn");
}

} // namespace
