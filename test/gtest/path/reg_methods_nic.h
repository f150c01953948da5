// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "path_gpu.h"
#include <cerrno>
#include <common/fds.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <vector>
#include <verbs_sim/verbs_sim.h>

namespace path_test {

inline constexpr size_t size       = 1 << 20;
inline constexpr uintptr_t address = uintptr_t{1} << 40;

// Stands in for uct_ib, which registers dma-bufs for the plug-in.
class uct_ib final : public importer {
public:
    // The errno of a registration in each mapping. -1 succeeds, unless the
    // simulated NIC fails; 0 leaves errno unchanged, as if no verb was called.
    int standard_error = -1, pcie_error = -1;

    uct_ib(verbs_sim::nic &sim, bool tries_data_direct)
        : sim_(sim), tries_data_direct_(tries_data_direct)
    {
    }
    void *reg(int fd, size_t, uintptr_t at, size_t length) override
    {
        const bool in_pcie = (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
        const int error    = in_pcie ? pcie_error : standard_error;

        errno = (error > 0) ? error : errno;
        return (error < 0) ? sim_.uct_ib_reg(fd, at, length, tries_data_direct_)
                           : nullptr;
    }
    void dereg(void *handle) override
    {
        sim_.pd().verbs->dereg(static_cast<ibv_mr *>(handle));
    }
    registered_buffer buffer_of(void *handle, uintptr_t at) override
    {
        const auto *mr = static_cast<const ibv_mr *>(handle);
        return {at, mr->lkey, mr->rkey};
    }

private:
    verbs_sim::nic &sim_;
    const bool tries_data_direct_;
};

// A NIC and its registrations.
class tested_nic {
public:
    explicit tested_nic(const verbs_sim::platform &on,
                        const char *name                = "mlx5_0",
                        bool tries_data_direct          = true,
                        reg_methods::path_checker check = {})
        : sim(name, on), by(sim, tries_data_direct),
          methods(sim.pd(), tries_data_direct, by, table_, std::move(check))
    {
    }
    ~tested_nic() { dereg_all(); }

    ucs_status_t reg(dmabuf_exports &memory, int gpu = 0)
    {
        registration *made = nullptr;
        const ucs_status_t status =
            methods.reg({memory, gpu, address, size}, &made);
        if (status == UCS_OK) {
            all_.push_back(made);
        } else {
            EXPECT_EQ(nullptr, made) << "outputs are set only on success";
        }
        EXPECT_EQ(all_.size(), sim.live()) << "what is broken was undone";
        return status;
    }
    ucs_status_t reg(exporter &gpu, int number = 0)
    {
        dmabuf_exports memory(gpu, address, size);
        return reg(memory, number);
    }
    reg_method first(int gpu = 0) const { return methods.first(gpu); }
    verbs_sim::registration last() const
    {
        return sim.of(static_cast<const ibv_mr *>(all_.back()->handle));
    }
    void dereg_all()
    {
        for (registration *each : all_) {
            methods.dereg(each);
        }
        all_.clear();
    }

private:
    path_table table_;

public:
    verbs_sim::nic sim;
    uct_ib by;
    reg_methods methods;

private:
    std::vector<registration *> all_;
};

class test_reg_methods : public ::testing::Test {
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

    path_gpu gpu_;

private:
    const int fds_  = count_fds();
    unsigned hangs_ = verbs_sim::nic::hangs();
};

} // namespace path_test
