// SPDX-License-Identifier: BSD-3-Clause
//
// The ladder over simulated NICs: attempts, memory of results, messages.
#include "reg_methods_nic.h"
#include <cerrno>
#include <climits>
#include <common/elsewhere.h>
#include <map>
#include <uct/ib_dmabuf/path/verbs_errors.h>

namespace {

using namespace ladder_test;
using verbs_sim::platform;

// With several GPUs, Data Direct often does not reach one, so nothing is
// logged. uct_ib's registration then transfers no data, as the judge finds. A
// removed device is not logged either: the standard mapping works without it.
TEST_F(test_ladder, a_gpu_that_data_direct_does_not_reach_is_remembered)
{
    platform gone         = verbs_sim::gb300();
    gone.data_direct_gone = true;
    coherent();

    for (const platform &on : {verbs_sim::gb300_far(), gone}) {
        ladder_nic nic(on, "mlx5_far");
        gpu_.pcie = 0;
        EXPECT_EQ(0u, told("mlx5_far", [&] {
                      for (int i = 0; i < 5; ++i) {
                          ASSERT_EQ(UCS_OK, nic.reg(gpu_));
                          EXPECT_FALSE(nic.last().pcie);
                          EXPECT_EQ(on.data_direct_gone, nic.last().reachable);
                      }
                  }));
        EXPECT_EQ(1u, gpu_.pcie);
        EXPECT_EQ(ladder_step::standard, nic.steps.first(0));
    }
}

TEST_F(test_ladder, what_is_remembered_is_of_one_gpu)
{
    ladder_nic nic(verbs_sim::gb300_far());
    coherent();

    ASSERT_EQ(UCS_OK, nic.reg(gpu_, 3));
    for (int odd : {-1, 256, INT_MAX}) {
        ASSERT_EQ(UCS_OK, nic.reg(gpu_, odd)) << odd;
    }
    nic.sim.become(verbs_sim::gb300());
    ASSERT_EQ(UCS_OK, nic.reg(gpu_, 4));
    EXPECT_TRUE(nic.last().data_direct);
    EXPECT_EQ(ladder_step::standard, nic.steps.first(3));
    EXPECT_EQ(ladder_step::pcie, nic.steps.first(4));
    EXPECT_EQ(ladder_step::pcie, nic.steps.first(0));
}

// These drivers return ENOMEM, and leave the dma-buf locked. uct_ib itself
// tries the same dma-buf again and hangs, as without the plug-in. Other NICs do
// not hang.
TEST_F(test_ladder, drivers_that_find_out_when_they_map)
{
    ladder_nic near(verbs_sim::gb300(575), "mlx5_near");
    ladder_nic far(verbs_sim::gb300_far(575), "mlx5_575");
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
TEST_F(test_ladder, nics_share_what_they_can)
{
    platform standard     = verbs_sim::connectx7();
    standard.coherent_gpu = true;
    ladder_nic direct(verbs_sim::gb300()), second(verbs_sim::gb300(), "mlx5_1");
    ladder_nic one(standard, "mlx5_2"), other(standard, "mlx5_3");
    coherent();

    ASSERT_EQ(UCS_OK, direct.reg(gpu_));
    ASSERT_EQ(UCS_OK, second.reg(gpu_));
    gpu_.pcie = 0;
    dmabuf_exports memory(gpu_, address, size);
    for (ladder_nic *nic : {&one, &direct, &other, &second}) {
        ASSERT_EQ(UCS_OK, nic->reg(memory));
        EXPECT_TRUE(nic->last().reachable);
        EXPECT_EQ((nic == &direct) || (nic == &second),
                  nic->last().data_direct);
    }
    EXPECT_EQ(1u, gpu_.pcie);
    EXPECT_EQ(1u, gpu_.standard);
}

TEST_F(test_ladder, what_no_step_takes_is_told_of_once)
{
    platform chipset     = verbs_sim::connectx7();
    chipset.peer_to_peer = false;
    ladder_nic nic(chipset, "mlx5_chipset");

    EXPECT_EQ(1u, told("mlx5_chipset", [&] {
                  for (int i = 0; i < 4; ++i) {
                      EXPECT_EQ(UCS_ERR_UNSUPPORTED, nic.reg(gpu_));
                  }
              }));
    EXPECT_EQ(0u,
              told("mlx5_chipset",
                   [&] { EXPECT_EQ(UCS_ERR_UNSUPPORTED, nic.reg(gpu_, 1)); }))
        << "another GPU";
    ladder_nic other(chipset, "mlx5_other");
    EXPECT_EQ(0u,
              told("mlx5_other",
                   [&] { EXPECT_EQ(UCS_ERR_UNSUPPORTED, other.reg(gpu_)); }))
        << "another NIC";
    coherent();
    gpu_.knows_pcie = false;
    EXPECT_EQ(0u,
              told("mlx5_chipset",
                   [&] { EXPECT_EQ(UCS_ERR_UNSUPPORTED, nic.reg(gpu_, 2)); }))
        << "there is no other mapping";
}

// Failures of single registrations, such as a full BAR1, do not demote a step.
TEST_F(test_ladder, a_step_that_works_stays_the_first)
{
    ladder_nic nic(verbs_sim::gb300());
    coherent();

    ASSERT_EQ(UCS_OK, nic.reg(gpu_));
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

TEST_F(test_ladder, memory_that_cannot_be_exported_says_nothing_of_the_pair)
{
    ladder_nic nic(verbs_sim::gb300());
    coherent();
    gpu_.fail = UCS_ERR_UNSUPPORTED;

    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(UCS_ERR_UNSUPPORTED, nic.reg(gpu_));
    }
    gpu_.fail = UCS_OK;
    ASSERT_EQ(UCS_OK, nic.reg(gpu_));
    EXPECT_TRUE(nic.last().data_direct);
}

// Fails in each mapping with the given errno. 0 leaves errno unchanged, as if
// no verb was called; -1 succeeds.
class failing final : public dmabuf_registration {
public:
    failing(uct_ib &other, int standard, int pcie)
        : other_(other), errors_{standard, pcie}
    {
    }
    void *reg(int fd, size_t offset, uintptr_t at, size_t length) override
    {
        const int error = errors_[(fcntl(fd, F_GETFL) & O_NONBLOCK) != 0];

        errno = (error > 0) ? error : errno;
        return (error < 0) ? other_.reg(fd, offset, at, length) : nullptr;
    }
    void dereg(void *handle) override { other_.dereg(handle); }

private:
    uct_ib &other_;
    const int errors_[2];
};

// An error of the pair counts at once, one of the memory after three times.
TEST_F(test_ladder, an_error_decides_what_is_told_and_remembered)
{
    const auto reg = [&](ladder_nic &nic, int standard, int pcie) {
        dmabuf_exports memory(gpu_, address, size);
        void *handle = nullptr;
        failing by(nic.by, standard, pcie);
        const auto status =
            nic.steps.reg(memory, 0, address, size, by, &handle);
        if (status == UCS_OK) {
            by.dereg(handle);
        }
        return status;
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
            ladder_nic nic(verbs_sim::gb300()), other(verbs_sim::connectx7());
            for (int i = 1; i <= 3; ++i) {
                EXPECT_EQ(UCS_OK, reg(nic, -1, error));
                EXPECT_EQ(((status == UCS_ERR_UNSUPPORTED) || (i == 3))
                              ? ladder_step::standard
                              : ladder_step::pcie,
                          nic.steps.first(0))
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

TEST_F(test_ladder, older_software_has_no_data_direct)
{
    platform rdma_core  = verbs_sim::gb300();
    rdma_core.rdma_core = 44;
    platform kernel     = verbs_sim::gb300();
    kernel.kernel       = 608;
    platform other      = verbs_sim::gb300();
    other.mlx5          = false;
    coherent();

    for (const platform &on : {rdma_core, kernel, other}) {
        ladder_nic nic(on);
        EXPECT_EQ(ladder_step::standard, nic.steps.first(0));
        ASSERT_EQ(UCS_OK, nic.reg(gpu_));
        EXPECT_EQ(0u, nic.sim.tried_data_direct());
    }
}

TEST_F(test_ladder, threads_learn_the_same)
{
    ladder_nic nic(verbs_sim::gb300_far());
    coherent();

    in_threads(4, [&](unsigned) {
        memfd_gpu own;
        own.coherent = true;
        for (int times = 0; times < 50; ++times) {
            dmabuf_exports memory(own, address, size);
            void *handle = nullptr;
            ASSERT_EQ(UCS_OK,
                      nic.steps.reg(memory, 0, address, size, nic.by, &handle));
            nic.by.dereg(handle);
        }
    });
    EXPECT_EQ(ladder_step::standard, nic.steps.first(0));
    EXPECT_EQ(0u, nic.sim.live());
}

} // namespace
