// SPDX-License-Identifier: BSD-3-Clause
//
// Methods of registration on every simulated platform, and the simulator's own
// argument checks.
#include "reg_methods_nic.h"
#include <cerrno>

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
        on.rdma_core              = flag(number, 8) ? 60 : 50;
        gpu_.coherent             = on.coherent_gpu;
        gpu_.knows_pcie           = flag(number, 9);
        gpu_.standard = gpu_.pcie = 0;
        const bool tries          = flag(number, 10);

        // uct_ib tries Data Direct first, in either mapping.
        const bool direct = tries && on.data_direct && (on.rdma_core >= 54);
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
    for (unsigned number = 0; number < 2048; ++number) {
        SCOPED_TRACE(number);
        play(number);
        if (HasFailure()) {
            return;
        }
    }
}

// The simulator checks the same arguments as the kernel and libmlx5.
TEST(test_verbs_sim, arguments)
{
    verbs_sim::nic nic("mlx5_0", verbs_sim::gb300());
    const protection_domain pd = nic.pd();
    const int dmabuf           = path_gpu::make(size, true);
    const int file             = open("/dev/null", O_RDWR | O_CLOEXEC);
    const auto error = [&](uint64_t offset, size_t length, uint64_t iova,
                           int fd, int access, int mlx5_access = 1) {
        errno      = 0;
        ibv_mr *mr = nic.mlx5_reg_dmabuf_mr(offset, length, iova, fd, access,
                                            mlx5_access);
        return (mr == nullptr) ? errno : pd.verbs->dereg(mr);
    };

    EXPECT_EQ(0, error(0, size, address, dmabuf, access_flags));
    EXPECT_EQ(0, error(4096, size - 4096, address, dmabuf, access_flags));
    EXPECT_EQ(EBADF, error(0, size, address, -1, access_flags));
    EXPECT_EQ(EINVAL, error(0, size, address, file, access_flags));
    EXPECT_EQ(EINVAL, error(0, size + 1, address, dmabuf, access_flags));
    EXPECT_EQ(EINVAL, error(4096, size, address, dmabuf, access_flags));
    EXPECT_EQ(EINVAL, error(0, 0, address, dmabuf, access_flags));
    EXPECT_EQ(EINVAL, error(0, size, address + 1, dmabuf, access_flags));
    EXPECT_EQ(EINVAL, error(0, size, address, dmabuf, IBV_ACCESS_ON_DEMAND));
    EXPECT_EQ(EINVAL, error(0, size, address, dmabuf, IBV_ACCESS_REMOTE_WRITE));
    EXPECT_EQ(EINVAL, error(0, size, address, dmabuf, access_flags, 2));
    EXPECT_EQ(EOPNOTSUPP, error(1, 4096, address + 1, dmabuf, access_flags));
    EXPECT_EQ(524, error(0, size, address, dmabuf, access_flags, 0));
    EXPECT_EQ(0u, nic.live());
    close(file);
    close(dmabuf);
}

} // namespace
