// SPDX-License-Identifier: BSD-3-Clause
//
// Simulated NICs of different kinds beside the simulated GPU, which is coherent
// here: the cache, CUDA's exports and the ladder together.
#include "ladder_nic.h"
#include <common/fds.h>
#include <common/gpu.h>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <uct/ib_dmabuf/cache/cache.h>
#include <uct/ib_dmabuf/cuda/vendor.h>

namespace {

using namespace ucx_ib_dmabuf;

constexpr size_t mib = 1 << 20;

class sim_registrar final : public registrar {
public:
    sim_registrar(const char *name, const verbs_sim::platform &on)
        : sim(name, on), by_(sim), steps_(sim.pd(), true)
    {
    }

    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, void **handle) override
    {
        return steps_.reg(memory, gpu, address, length, by_, handle);
    }
    void dereg(void *handle) override { by_.dereg(handle); }

    verbs_sim::nic sim;

private:
    ladder_test::uct_ib by_;
    ladder steps_;
};

class test_nics : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        cuda_ = find_cuda();
        ASSERT_NE(nullptr, cuda_);
        fds_     = count_fds();
        regions_ = std::make_unique<cache>(*cuda_, cache_settings());
        for (unsigned i = 0; i < std::size(nics_); ++i) {
            ids_[i] = regions_->attach(nics_[i]);
        }
    }
    void TearDown() override
    {
        for (cache::nic_id id : ids_) {
            regions_->detach(id);
        }
        for (sim_registrar &nic : nics_) {
            EXPECT_EQ(0u, nic.sim.live());
        }
        EXPECT_EQ(fds_, count_fds());
    }

    verbs_sim::registration get(unsigned nic, const gpu::buffer &memory)
    {
        const region *used = nullptr;

        EXPECT_EQ(UCS_OK, regions_->get(ids_[nic], memory.address(),
                                        memory.size(), &used));
        if (used == nullptr) {
            return {};
        }
        const auto found =
            nics_[nic].sim.of(static_cast<const ibv_mr *>(used->handle));
        regions_->put(used);
        return found;
    }
    cache_counters counters() const
    {
        cache_counters now;
        regions_->read_counters(&now);
        return now;
    }

    static verbs_sim::platform standard()
    {
        verbs_sim::platform on = verbs_sim::connectx7();
        on.coherent_gpu        = true;
        return on;
    }

    std::unique_ptr<gpu_vendor> cuda_;
    int fds_ = 0;
    sim_registrar nics_[4]{{"mlx5_0", verbs_sim::gb300()},
                           {"mlx5_1", verbs_sim::gb300_far()},
                           {"mlx5_2", standard()},
                           {"mlx5_3", verbs_sim::gb300()}};
    cache::nic_id ids_[4]{};
    std::unique_ptr<cache> regions_;
};

TEST_F(test_nics, each_has_the_mapping_that_suits_it)
{
    gpu::buffer memory(4 * mib);

    for (unsigned nic = 0; nic < std::size(nics_); ++nic) {
        const verbs_sim::registration found = get(nic, memory);
        const bool direct                   = (nic == 0) || (nic == 3);
        EXPECT_EQ(nic != 2, found.data_direct) << nic;
        EXPECT_EQ(direct, found.pcie) << nic;
        EXPECT_EQ(nic != 1, found.reachable) << nic; // as uct_ib does it
        EXPECT_EQ(memory.address(), found.iova) << nic;
    }
}

TEST_F(test_nics, one_export_for_each_mapping)
{
    gpu::buffer known(4 * mib);
    gpu::buffer more(4 * mib);
    gpu::buffer memory(4 * mib);

    // So that each of them is known to need this GPU's memory.
    for (const gpu::buffer *each : {&known, &more}) {
        for (unsigned nic = 0; nic < std::size(nics_); ++nic) {
            get(nic, *each);
        }
    }
    const cache_counters before = counters();
    for (unsigned nic = 0; nic < std::size(nics_); ++nic) {
        EXPECT_EQ(nic != 1, get(nic, memory).reachable);
    }
    EXPECT_EQ(4u, counters().registrations - before.registrations);
    EXPECT_EQ(2u, counters().exports - before.exports);
    EXPECT_EQ(0u, counters().failures);
}

} // namespace

int main(int argc, char **argv)
{
    setenv("CUDA_SIM_COHERENT", "y", 1);
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
