// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_VERBS_LADDER_NIC_H_
#define TEST_GTEST_VERBS_LADDER_NIC_H_

#include "memfd_gpu.h"
#include <common/fds.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/verbs/dmabuf_mr.h>
#include <uct/ib_dmabuf/verbs/ladder.h>
#include <vector>
#include <verbs_sim/verbs_sim.h>

namespace ladder_test {

inline constexpr size_t size       = 1 << 20;
inline constexpr uintptr_t address = uintptr_t{1} << 40;
inline constexpr int access_flags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
    IBV_ACCESS_REMOTE_ATOMIC;

// A NIC with a ladder, and what it has registered.
class ladder_nic {
public:
    explicit ladder_nic(const verbs_sim::platform &on,
                        const char *name = "mlx5_0")
        : sim(name, on), steps(sim.pd())
    {
    }
    ~ladder_nic() { dereg_all(); }

    ucs_status_t reg(dmabuf_source &memory, int gpu = 0)
    {
        ibv_mr *mr = nullptr;
        const ucs_status_t status =
            steps.reg(memory, gpu, address, size, access_flags, &mr);
        if (status == UCS_OK) {
            all_.push_back(mr);
        } else {
            EXPECT_EQ(nullptr, mr) << "outputs are set only on success";
        }
        return status;
    }
    ucs_status_t reg(exporter &gpu, int number = 0)
    {
        exports memory(gpu, address, size);
        return reg(memory, number);
    }
    verbs_sim::registration last() const { return sim.of(all_.back()); }
    void dereg_all()
    {
        for (ibv_mr *mr : all_) {
            verbs_dereg_mr(*sim.pd().verbs, mr);
        }
        all_.clear();
    }

    verbs_sim::nic sim;
    ladder steps;

private:
    std::vector<ibv_mr *> all_;
};

class test_ladder : public ::testing::Test {
protected:
    void TearDown() override
    {
        EXPECT_EQ(fds_, count_fds());
        EXPECT_EQ(hangs_, verbs_sim::nic::hangs());
    }
    void coherent() { gpu_.coherent = true; }

    // Lines of the log that tell of this NIC's registrations.
    template <typename Call>
    unsigned told(const char *nic, Call call)
    {
        ::testing::internal::CaptureStdout();
        ::testing::internal::CaptureStderr();
        call();
        const std::string log = ::testing::internal::GetCapturedStdout() +
                                ::testing::internal::GetCapturedStderr();
        const std::string what = std::string(nic) + ": ";
        unsigned count         = 0;
        for (size_t at = log.find(what); at != std::string::npos;
             at        = log.find(what, at + 1)) {
            ++count;
        }
        return count;
    }

    memfd_gpu gpu_;

private:
    const int fds_        = count_fds();
    const unsigned hangs_ = verbs_sim::nic::hangs();
};

} // namespace ladder_test

#endif
