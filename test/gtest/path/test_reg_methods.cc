// SPDX-License-Identifier: BSD-3-Clause
//
// Methods of registration with simulated NICs: attempts, memory of results,
// checks of paths, messages.
#include "reg_methods_nic.h"
#include <cerrno>
#include <climits>
#include <common/elsewhere.h>
#include <map>
#include <uct/ib_dmabuf/path/verbs_errors.h>
#include <utility>

namespace {

using namespace path_test;
using verbs_sim::platform;

// With several GPUs, Data Direct often does not reach one, so nothing is
// logged. uct_ib's registration then transfers no data, as the check finds. A
// removed device is not logged either: the standard mapping works without it.
TEST_F(test_reg_methods, a_gpu_that_data_direct_does_not_reach_is_remembered)
{
    platform gone         = verbs_sim::gb300();
    gone.data_direct_gone = true;
    coherent();

    for (const platform &on : {verbs_sim::gb300_far(), gone}) {
        tested_nic nic(on, "mlx5_far");
        gpu_.pcie = 0;
        EXPECT_EQ(0u, told("mlx5_far", [&] {
                      for (int i = 0; i < 5; ++i) {
                          ASSERT_EQ(UCS_OK, nic.reg(gpu_));
                          EXPECT_FALSE(nic.last().pcie);
                          EXPECT_EQ(on.data_direct_gone, nic.last().reachable);
                      }
                  }));
        EXPECT_EQ(1u, gpu_.pcie);
        EXPECT_EQ(reg_method::standard, nic.first(0));
    }
}

TEST_F(test_reg_methods, what_is_remembered_is_of_one_gpu)
{
    tested_nic nic(verbs_sim::gb300_far());
    coherent();

    ASSERT_EQ(UCS_OK, nic.reg(gpu_, 3));
    for (int odd : {-1, 256, INT_MAX}) {
        ASSERT_EQ(UCS_OK, nic.reg(gpu_, odd)) << odd;
    }
    nic.sim.become(verbs_sim::gb300());
    ASSERT_EQ(UCS_OK, nic.reg(gpu_, 4));
    EXPECT_TRUE(nic.last().data_direct);
    EXPECT_EQ(reg_method::standard, nic.first(3));
    EXPECT_EQ(reg_method::pcie, nic.first(4));
    EXPECT_EQ(reg_method::pcie, nic.first(0));
}

// These drivers return ENOMEM, and leave the dma-buf locked. uct_ib itself
// tries the same dma-buf again and hangs, as without the plug-in. Other NICs do
// not hang.
TEST_F(test_reg_methods, drivers_that_find_out_when_they_map)
{
    tested_nic near(verbs_sim::gb300(575), "mlx5_near");
    tested_nic far(verbs_sim::gb300_far(575), "mlx5_575");
    coherent();

    dmabuf_exports memory(gpu_, address, size);
    ASSERT_EQ(UCS_OK, near.reg(memory));
    far.reg(memory);
    hangs_as_uct_ib_does(1);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(UCS_OK, near.reg(memory));
        EXPECT_TRUE(near.last().data_direct);
    }
    near.dereg_all(); // hangs if both NICs shared a dma-buf
}

// NICs share a PCIe export after Data Direct has worked for them.
TEST_F(test_reg_methods, nics_share_what_they_can)
{
    platform standard     = verbs_sim::connectx7();
    standard.coherent_gpu = true;
    tested_nic direct(verbs_sim::gb300()), second(verbs_sim::gb300(), "mlx5_1");
    tested_nic one(standard, "mlx5_2"), other(standard, "mlx5_3");
    coherent();

    ASSERT_EQ(UCS_OK, direct.reg(gpu_));
    ASSERT_EQ(UCS_OK, second.reg(gpu_));
    gpu_.pcie = 0;
    dmabuf_exports memory(gpu_, address, size);
    for (tested_nic *nic : {&one, &direct, &other, &second}) {
        ASSERT_EQ(UCS_OK, nic->reg(memory));
        EXPECT_TRUE(nic->last().reachable);
        EXPECT_EQ((nic == &direct) || (nic == &second),
                  nic->last().data_direct);
    }
    EXPECT_EQ(1u, gpu_.pcie);
    EXPECT_EQ(1u, gpu_.standard);
}

// Not again for another GPU or NIC. A GPU may have no other mapping.
TEST_F(test_reg_methods, what_no_step_takes_is_told_of_once)
{
    platform chipset     = verbs_sim::connectx7();
    chipset.peer_to_peer = false;
    tested_nic one(chipset, "mlx5_one"), other(chipset, "mlx5_other");
    unsigned expected = 1;

    for (const auto &each :
         {std::pair{&one, 0}, {&one, 0}, {&one, 1}, {&other, 0}, {&one, 2}}) {
        tested_nic &nic = *each.first;
        const int gpu   = each.second;
        gpu_.coherent   = gpu == 2;
        gpu_.knows_pcie = gpu != 2;
        EXPECT_EQ(std::exchange(expected, 0), told(nic.methods.name(), [&] {
                      EXPECT_EQ(UCS_ERR_UNSUPPORTED, nic.reg(gpu_, gpu));
                  }));
    }
}

// Failures of single registrations, such as a full BAR1, do not demote a step.
// Memory that cannot be exported concerns no step.
TEST_F(test_reg_methods, a_step_that_works_stays_the_first)
{
    tested_nic nic(verbs_sim::gb300());
    coherent();

    gpu_.fail = UCS_ERR_UNSUPPORTED;
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(UCS_ERR_UNSUPPORTED, nic.reg(gpu_));
    }
    gpu_.fail = UCS_OK;
    ASSERT_EQ(UCS_OK, nic.reg(gpu_));
    EXPECT_TRUE(nic.last().data_direct);
    for (ucs_status_t fails : {UCS_ERR_NO_MEMORY, UCS_ERR_IO_ERROR}) {
        gpu_.fail_pcie = fails;
        for (int i = 0; i < 5; ++i) {
            EXPECT_EQ((fails == UCS_ERR_NO_MEMORY) ? fails : UCS_OK,
                      nic.reg(gpu_));
        }
    }
    gpu_.fail_pcie = UCS_OK;
    ASSERT_EQ(UCS_OK, nic.reg(gpu_));
    EXPECT_TRUE(nic.last().data_direct);
}

// An error of the pair counts at once, one of the memory after three times.
TEST_F(test_reg_methods, an_error_decides_what_is_told_and_remembered)
{
    const auto reg = [&](tested_nic &nic, int standard, int pcie) {
        nic.by.standard_error = standard;
        nic.by.pcie_error     = pcie;
        return nic.reg(gpu_);
    };
    coherent();

    const std::map<ucs_status_t, std::vector<int>> errors{
        {UCS_ERR_UNSUPPORTED, {kernel_enotsupp, EOPNOTSUPP, EPROTONOSUPPORT}},
        {UCS_ERR_NO_MEMORY, {ENOMEM, ENOSPC, EAGAIN}},
        {UCS_ERR_BUSY, {EBUSY, EINTR}},
        {UCS_ERR_INVALID_PARAM, {EINVAL}},
        {UCS_ERR_IO_ERROR, {EIO, EPERM}}};
    for (const auto &[status, numbers] : errors) {
        for (const int error : numbers) {
            tested_nic nic(verbs_sim::gb300()), other(verbs_sim::connectx7());
            for (int i = 1; i <= 3; ++i) {
                EXPECT_EQ(UCS_OK, reg(nic, -1, error));
                EXPECT_EQ(((status == UCS_ERR_UNSUPPORTED) || (i == 3))
                              ? reg_method::standard
                              : reg_method::pcie,
                          nic.first(0))
                    << error;
            }
            EXPECT_EQ(status, reg(nic, error, error));
            // The standard mapping's error is returned, not the PCIe mapping's.
            EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg(other, kernel_enotsupp, error));
            // Other errors, or an earlier call's errno, cause no PCIe attempt.
            gpu_.pcie = 0;
            errno     = error;
            EXPECT_EQ(UCS_ERR_IO_ERROR, reg(other, 0, -1));
            EXPECT_EQ(0u, gpu_.pcie);
            reg(other, error, -1);
            EXPECT_EQ(error == kernel_enotsupp, gpu_.pcie == 1);
        }
    }
}

TEST_F(test_reg_methods, threads_learn_the_same)
{
    tested_nic nic(verbs_sim::gb300_far());
    coherent();

    in_threads(4, [&](unsigned) {
        path_gpu own;
        own.coherent = true;
        for (int times = 0; times < 50; ++times) {
            dmabuf_exports memory(own, address, size);
            registration *made = nullptr;
            ASSERT_EQ(UCS_OK,
                      nic.methods.reg({memory, 0, address, size}, &made));
            nic.methods.dereg(made);
        }
    });
    EXPECT_EQ(reg_method::standard, nic.first(0));
    EXPECT_EQ(0u, nic.sim.live());
}

// Returns the preset state of a method's path, `untested` of others.
class test_checks : public test_reg_methods {
protected:
    ucs_status_t reg(int gpu = 0)
    {
        const ucs_status_t status = nic_.reg(gpu_, gpu);
        nic_.dereg_all();
        return status;
    }
    reg_methods::path_checker check()
    {
        return [this](int, reg_method method, const registered_buffer *) {
            ++asked_;
            return check_result{state_[static_cast<size_t>(method)], "a test"};
        };
    }
    void set(path_state standard, path_state pcie = path_state::untested)
    {
        state_[0] = standard;
        state_[1] = pcie;
    }

    path_state state_[2]{};
    unsigned asked_ = 0;
    tested_nic nic_{verbs_sim::connectx7(), "mlx5_0", true, check()};
};

TEST_F(test_checks, a_broken_path_is_stepped_over)
{
    set(path_state::broken, path_state::proven);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(UCS_OK, reg());
    }
    EXPECT_EQ(reg_method::pcie, nic_.first());
    EXPECT_EQ(2u, asked_);

    set(path_state::broken, path_state::broken); // for another GPU
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg(1));
    }
    EXPECT_EQ(4u, asked_);
    EXPECT_EQ(2u, gpu_.pcie - 2) << "what is known is not registered";
}

// Mappings mostly share one path, so beside a broken one a proof is needed.
TEST_F(test_checks, beside_a_broken_path_only_a_proven_one_is_taken)
{
    set(path_state::broken);
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg());
    set(path_state::broken, path_state::proven);
    EXPECT_EQ(UCS_OK, reg());
}

// The standard mapping would be broken, with a warning. UCX would then get
// UCS_ERR_UNSUPPORTED, and idle entries would not be evicted.
TEST_F(test_checks, a_proven_path_that_lacks_room_is_reported)
{
    verbs_sim::platform full = verbs_sim::gb300();
    full.room                = size + size / 2;
    tested_nic near(full, "mlx5_near", true, check());
    coherent();

    set(path_state::broken, path_state::proven);
    ASSERT_EQ(UCS_OK, near.reg(gpu_));
    EXPECT_EQ(UCS_ERR_NO_MEMORY, near.reg(gpu_));
    EXPECT_EQ(1u, asked_);
    near.dereg_all();
    ASSERT_EQ(UCS_OK, near.reg(gpu_));
}

TEST_F(test_checks, a_path_to_be_rechecked_is_not_taken_now)
{
    set(path_state::unchecked);
    EXPECT_EQ(UCS_ERR_BUSY, reg());
    set(path_state::proven);
    EXPECT_EQ(UCS_OK, reg());
    EXPECT_EQ(reg_method::standard, nic_.first());
}

// The check of an untested path is repeated, and may find it broken.
TEST_F(test_checks, an_untested_path_is_used_until_it_is_broken)
{
    set(path_state::untested);
    EXPECT_EQ(UCS_OK, reg());
    set(path_state::broken, path_state::broken);
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg());
}

// The buffer that a check gets, and none if the memory is a user's.
TEST_F(test_checks, only_a_probe_is_overwritten)
{
    std::vector<uint64_t> addresses;
    tested_nic nic(verbs_sim::connectx7(), "mlx5_1", true,
                   [&](int, reg_method, const registered_buffer *probe) {
                       addresses.push_back(probe ? probe->address : 0);
                       return check_result{};
                   });
    for (bool is_probe : {false, true}) {
        dmabuf_exports memory(gpu_, address, size);
        registration *made = nullptr;
        ASSERT_EQ(UCS_OK,
                  nic.methods.reg({memory, 0, address, size, is_probe}, &made));
        EXPECT_EQ(address, made->address);
        nic.methods.dereg(made);
    }
    EXPECT_EQ((std::vector<uint64_t>{0, address}), addresses);
}

} // namespace
