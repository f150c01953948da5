// SPDX-License-Identifier: BSD-3-Clause
//
// The ladder on everything that the simulated NICs can play, and what these
// check themselves.
#include "ladder_nic.h"
#include <cerrno>
#include <cstring>

namespace {

using namespace ladder_test;
using verbs_sim::platform;

TEST_F(test_ladder, the_probe)
{
    platform without  = verbs_sim::connectx7();
    without.imports   = false;
    platform kernel   = verbs_sim::connectx7();
    kernel.kernel     = 510;
    platform library  = verbs_sim::connectx7();
    library.rdma_core = 33;
    text why;

    for (const platform &on : {without, kernel, library}) {
        verbs_sim::nic nic("mlx5_0", on);
        EXPECT_FALSE(verbs_can_register_dmabuf(nic.pd(), &why));
        EXPECT_NE(nullptr, strstr(why.c_str(), "mlx5_0"));
    }
    verbs_sim::nic nic("mlx5_0", verbs_sim::connectx7());
    EXPECT_TRUE(verbs_can_register_dmabuf(nic.pd(), &why));
}

// Every platform that the simulator can play. What should be is said anew here.
class every_platform : public test_ladder {
protected:
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

        const bool pcie   = on.coherent_gpu && gpu_.knows_pcie;
        const bool direct = on.data_direct && !on.data_direct_gone &&
                            (on.rdma_core >= 54) &&
                            (on.coherent_gpu ? pcie && on.data_direct_beside_gpu
                                             : on.peer_to_peer);
        const bool other =
            pcie && (on.nic_beside_gpu || !on.refuses_unreachable);
        const bool works = direct || on.peer_to_peer || other;

        ladder_nic nic(on);
        for (int i = 0; i < 4; ++i) {
            ASSERT_EQ(works, nic.reg(gpu_) == UCS_OK);
            if (works) {
                EXPECT_EQ(direct, nic.last().data_direct);
                EXPECT_EQ(direct || on.peer_to_peer || on.nic_beside_gpu,
                          nic.last().reachable);
            }
        }
    }
};

TEST_F(every_platform, takes_the_best_step)
{
    for (unsigned number = 0; number < 1024; ++number) {
        SCOPED_TRACE(number);
        play(number);
        if (HasFailure()) {
            return;
        }
    }
}

// The simulator checks what the kernel and libmlx5 check.
TEST(test_verbs_sim, arguments)
{
    verbs_sim::nic nic("mlx5_0", verbs_sim::gb300());
    const protection_domain pd = nic.pd();
    const int dmabuf           = memfd_gpu::make(size, true);
    const int file             = open("/dev/null", O_RDWR | O_CLOEXEC);
    const auto error = [&](uint64_t offset, size_t length, uint64_t iova,
                           int fd, int access, int mlx5_access = 1) {
        errno      = 0;
        ibv_mr *mr = pd.mlx5.reg_dmabuf(pd.verbs_pd, offset, length, iova, fd,
                                        access, mlx5_access);
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
