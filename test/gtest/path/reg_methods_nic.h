// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "memfd_gpu.h"
#include <common/fds.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <vector>
#include <verbs_sim/verbs_sim.h>

namespace ladder_test {

inline constexpr size_t size       = 1 << 20;
inline constexpr uintptr_t address = uintptr_t{1} << 40;
inline constexpr int access_flags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
    IBV_ACCESS_REMOTE_ATOMIC;

// Stands in for uct_ib, which registers dma-bufs for the plug-in.
class uct_ib final : public dmabuf_registration {
public:
    explicit uct_ib(verbs_sim::nic &sim, bool tries_data_direct = true)
        : sim_(sim), tries_data_direct_(tries_data_direct)
    {
    }
    void *reg(int fd, size_t, uintptr_t at, size_t length) override
    {
        return sim_.uct_ib_reg(fd, at, length, access_flags,
                               tries_data_direct_);
    }
    void dereg(void *handle) override
    {
        sim_.pd().verbs->dereg(static_cast<ibv_mr *>(handle));
    }

private:
    verbs_sim::nic &sim_;
    const bool tries_data_direct_;
};

// A NIC with a ladder, and its registrations.
class ladder_nic {
public:
    explicit ladder_nic(const verbs_sim::platform &on,
                        const char *name       = "mlx5_0",
                        bool tries_data_direct = true)
        : sim(name, on), by(sim, tries_data_direct),
          steps(sim.pd(), tries_data_direct)
    {
    }
    ~ladder_nic() { dereg_all(); }

    ucs_status_t reg(dmabuf_source &memory, int gpu = 0)
    {
        void *handle = nullptr;
        const ucs_status_t status =
            steps.reg(memory, gpu, address, size, by, &handle);
        if (status == UCS_OK) {
            all_.push_back(static_cast<ibv_mr *>(handle));
        } else {
            EXPECT_EQ(nullptr, handle) << "outputs are set only on success";
        }
        return status;
    }
    ucs_status_t reg(exporter &gpu, int number = 0)
    {
        dmabuf_exports memory(gpu, address, size);
        return reg(memory, number);
    }
    verbs_sim::registration last() const { return sim.of(all_.back()); }
    void dereg_all()
    {
        for (ibv_mr *mr : all_) {
            by.dereg(mr);
        }
        all_.clear();
    }

    verbs_sim::nic sim;
    uct_ib by;
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
    void hangs_as_uct_ib_does(unsigned times) { hangs_ += times; }

    // Returns the number of log lines about this NIC's registrations.
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
    const int fds_  = count_fds();
    unsigned hangs_ = verbs_sim::nic::hangs();
};

} // namespace ladder_test
