// SPDX-License-Identifier: BSD-3-Clause
//
// The ladder where somebody looks whether what is registered carries data.
#include "ladder_nic.h"
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

using namespace ladder_test;

namespace {

// Says of each step what it is told to, and of the rest that it cannot tell.
class judge final : public path_judge {
public:
    std::optional<bool> carries(ladder_step step, int,
                                dmabuf_registration &) noexcept override
    {
        ++asked;
        if (meanwhile) {
            std::exchange(meanwhile, nullptr)();
        }
        const auto found = says.find(step);
        return found == says.end() ? std::nullopt
                                   : std::optional(found->second);
    }
    std::map<ladder_step, bool> says;
    std::function<void()> meanwhile; // once
    unsigned asked = 0;
};

TEST_F(test_ladder, what_a_judge_refutes_is_stepped_over_for_good)
{
    ladder_nic nic(verbs_sim::connectx7());
    judge by;
    ladder steps(nic.sim.pd(), &by);
    ibv_mr *mr = nullptr;

    by.says = {{ladder_step::standard, false}, {ladder_step::pcie, true}};
    for (int i = 0; i < 3; ++i) {
        exports memory(gpu_, address, size);
        ASSERT_EQ(UCS_OK,
                  steps.reg(memory, 0, address, size, access_flags, &mr));
        EXPECT_EQ(1u, nic.sim.live()) << "the refuted one was undone";
        verbs_dereg_mr(*nic.sim.pd().verbs, mr);
    }
    EXPECT_EQ(ladder_step::pcie, steps.first(0));
    EXPECT_EQ(2u, by.asked);

    by.says[ladder_step::pcie] = false; // of another GPU
    for (int i = 0; i < 3; ++i) {
        exports memory(gpu_, address, size);
        EXPECT_EQ(UCS_ERR_UNSUPPORTED,
                  steps.reg(memory, 1, address, size, access_flags, &mr));
        EXPECT_EQ(0u, nic.sim.live());
    }
    EXPECT_EQ(4u, by.asked);
}

TEST_F(test_ladder, what_a_judge_cannot_tell_is_taken_and_asked_again)
{
    ladder_nic nic(verbs_sim::connectx7());
    judge by;
    ladder steps(nic.sim.pd(), &by);

    for (unsigned i = 1; i < 5; ++i) {
        exports memory(gpu_, address, size);
        ibv_mr *mr = nullptr;
        ASSERT_EQ(UCS_OK,
                  steps.reg(memory, 0, address, size, access_flags, &mr));
        verbs_dereg_mr(*nic.sim.pd().verbs, mr);
        EXPECT_EQ(std::min(i, 2u), by.asked);
        by.says[ladder_step::standard] = true;
    }
}

TEST_F(test_ladder, what_is_doubted_is_asked_again)
{
    ladder_nic nic(verbs_sim::connectx7());
    judge by;
    ladder steps(nic.sim.pd(), &by);
    ibv_mr *mr     = nullptr;
    const auto reg = [&] {
        exports memory(gpu_, address, size);
        const ucs_status_t status =
            steps.reg(memory, 0, address, size, access_flags, &mr);
        if (status == UCS_OK) {
            verbs_dereg_mr(*nic.sim.pd().verbs, mr);
        }
        return status;
    };

    by.says      = {{ladder_step::standard, true}};
    by.meanwhile = [&] { steps.doubt(); };
    ASSERT_EQ(UCS_OK, reg());
    EXPECT_EQ(2u, by.asked) << "what he said was of before that";
    ASSERT_EQ(UCS_OK, reg());
    EXPECT_EQ(2u, by.asked);
    steps.doubt();
    by.says = {{ladder_step::standard, false}, {ladder_step::pcie, false}};
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg());
    EXPECT_EQ(4u, by.asked);
    EXPECT_EQ(0u, nic.sim.live());
}

} // namespace
