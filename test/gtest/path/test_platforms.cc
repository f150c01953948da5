// SPDX-License-Identifier: BSD-3-Clause
//
// Methods of registration on every simulated platform.
#include "reg_methods_nic.h"

namespace {

using namespace path_test;
using verbs_sim::platform;

// Every simulated platform, with expectations computed independently of src/.
class every_platform : public test_reg_methods {
protected:
    // Other tests count warnings, each of which is logged once.
    void SetUp() override
    {
        tell_warnings_to([](const char *, const char *) {});
    }
    void TearDown() override
    {
        tell_warnings_to(nullptr);
        test_reg_methods::TearDown();
    }

    static bool flag(unsigned number, unsigned bit)
    {
        return ((number >> bit) & 1) != 0;
    }

    void play(unsigned number)
    {
        platform on;
        on.data_direct            = flag(number, 0);
        on.data_direct_gone       = flag(number, 1);
        on.nvidia                 = flag(number, 2) ? 575 : 595;
        on.coherent_gpu           = flag(number, 3);
        on.data_direct_beside_gpu = flag(number, 4);
        on.nic_beside_gpu         = flag(number, 5);
        on.peer_to_peer           = flag(number, 6);
        on.refuses_unreachable    = flag(number, 7);
        const unsigned old        = number >> 10; // software, or other driver
        on.rdma_core              = (old == 1) ? 50 : 60;
        on.kernel                 = (old == 2) ? 608 : 618;
        on.mlx5                   = old != 3;
        gpu_.coherent             = on.coherent_gpu;
        gpu_.knows_pcie           = flag(number, 8);
        gpu_.standard = gpu_.pcie = 0;
        const bool tries          = flag(number, 9);

        // uct_ib tries Data Direct first, in either mapping.
        const bool direct = tries && on.data_direct && (old == 0);
        const bool over   = direct && !on.data_direct_gone;
        const bool pcie   = on.coherent_gpu && gpu_.knows_pcie;
        const bool plain  = on.nic_beside_gpu || !on.refuses_unreachable;
        // Only a coherent GPU has the PCIe mapping.
        const bool pcie_works = pcie && ((over && on.data_direct_beside_gpu) ||
                                         (plain && !hangs(on, over, pcie)));
        const bool works      = pcie_works || on.peer_to_peer;
        const bool in_pcie    = pcie_works && (direct || !on.peer_to_peer);
        const bool reaches =
            in_pcie ? ((over && on.data_direct_beside_gpu) || on.nic_beside_gpu)
                    : !(over && on.coherent_gpu);

        tested_nic nic(on, "mlx5_0", tries);
        const unsigned before = verbs_sim::nic::hangs();
        for (int i = 0; i < 4; ++i) {
            ASSERT_EQ(works, nic.reg(gpu_) == UCS_OK);
            if (works) {
                EXPECT_EQ(in_pcie, nic.last().pcie);
                EXPECT_EQ(over && (!in_pcie || on.data_direct_beside_gpu),
                          nic.last().data_direct);
                EXPECT_EQ(reaches, nic.last().reachable);
                EXPECT_EQ(address, nic.last().iova);
            }
        }
        if (works && on.coherent_gpu) { // the other is not retried for ever
            EXPECT_LT(in_pcie ? gpu_.standard : gpu_.pcie, 4u);
        }
        const unsigned hung = verbs_sim::nic::hangs() - before;
        EXPECT_EQ(hangs(on, over, pcie), hung > 0);
        hangs_as_uct_ib_does(hung);
    }

private:
    // uct_ib registers a dma-buf again although the driver has left it locked.
    static bool hangs(const platform &on, bool over, bool pcie)
    {
        return over && pcie && !on.data_direct_beside_gpu && (on.nvidia < 580);
    }
};

TEST_F(every_platform, takes_the_best_step)
{
    for (unsigned number = 0; number < 4096; ++number) {
        SCOPED_TRACE(number);
        play(number);
        if (HasFailure()) {
            return;
        }
    }
}

} // namespace
