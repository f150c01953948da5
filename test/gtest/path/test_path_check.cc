// SPDX-License-Identifier: BSD-3-Clause
//
// The ladder with a judge that checks whether registered memory transfers data.
#include "reg_methods_nic.h"
#include <map>
#include <set>
#include <utility>

using namespace ladder_test;

namespace {

// Returns the preset finding of a step, `unknown` of others. Remembers the
// steps that it has refuted.
class fake_judge final : public path_judge {
public:
    bool is_refuted(ladder_step step, int gpu) noexcept override
    {
        return refuted.contains({step, gpu});
    }
    finding judge(ladder_step step, int gpu,
                  dmabuf_registration &) noexcept override
    {
        ++asked;
        const auto found = says.find(step);
        if (found == says.end()) {
            return finding::unknown;
        }
        if (found->second == finding::refuted) {
            refuted.emplace(step, gpu);
        }
        return found->second;
    }
    std::map<ladder_step, finding> says;
    std::set<std::pair<ladder_step, int>> refuted;
    unsigned asked = 0;
};

class test_judge : public test_ladder {
protected:
    ucs_status_t reg(int gpu = 0)
    {
        dmabuf_exports memory(gpu_, address, size);
        void *handle = nullptr;
        const ucs_status_t status =
            steps_.reg(memory, gpu, address, size, nic_.by, &handle);
        if (status == UCS_OK) {
            EXPECT_EQ(1u, nic_.sim.live()) << "what is refuted was undone";
            nic_.by.dereg(handle);
        }
        EXPECT_EQ(0u, nic_.sim.live());
        return status;
    }

    ladder_nic nic_{verbs_sim::connectx7()};
    fake_judge by_;
    ladder steps_{nic_.sim.pd(), true, &by_};
};

TEST_F(test_judge, what_he_refutes_is_stepped_over)
{
    by_.says = {{ladder_step::standard, finding::refuted},
                {ladder_step::pcie, finding::carries}};
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(UCS_OK, reg());
    }
    EXPECT_EQ(ladder_step::pcie, steps_.first(0));
    EXPECT_EQ(4u, by_.asked);

    by_.says[ladder_step::pcie] = finding::refuted; // for another GPU
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg(1));
    }
    EXPECT_EQ(6u, by_.asked) << "what is known is not registered";
}

// Mappings mostly share one path, so beside a refuted one a proof is needed.
TEST_F(test_judge, beside_what_he_refutes_only_what_carries_is_taken)
{
    by_.says = {{ladder_step::standard, finding::refuted}};
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, reg());
    by_.says[ladder_step::pcie] = finding::carries;
    EXPECT_EQ(UCS_OK, reg());
}

// The standard mapping would be refuted, with a warning. UCX would then get
// UCS_ERR_UNSUPPORTED, and idle entries would not be evicted.
TEST_F(test_judge, what_carries_and_lacks_room_is_what_is_told)
{
    verbs_sim::platform full = verbs_sim::gb300();
    full.room                = size + size / 2;
    ladder_nic near(full);
    ladder steps(near.sim.pd(), true, &by_);
    dmabuf_exports memory(gpu_, address, size);
    void *first = nullptr, *second = nullptr;
    coherent();

    by_.says = {{ladder_step::standard, finding::refuted},
                {ladder_step::pcie, finding::carries}};
    ASSERT_EQ(UCS_OK, steps.reg(memory, 0, address, size, near.by, &first));
    EXPECT_EQ(UCS_ERR_NO_MEMORY,
              steps.reg(memory, 0, address, size, near.by, &second));
    EXPECT_EQ(1u, by_.asked);
    near.by.dereg(first);
    ASSERT_EQ(UCS_OK, steps.reg(memory, 0, address, size, near.by, &second));
    near.by.dereg(second);
}

TEST_F(test_judge, what_he_doubts_is_not_taken_now)
{
    by_.says = {{ladder_step::standard, finding::doubtful}};
    EXPECT_EQ(UCS_ERR_BUSY, reg());
    by_.says = {{ladder_step::standard, finding::carries}};
    EXPECT_EQ(UCS_OK, reg());
    EXPECT_EQ(ladder_step::standard, steps_.first(0));
}

// A later answer of the judge may differ.
TEST_F(test_judge, he_is_asked_each_time)
{
    for (finding now : {finding::carries, finding::unknown, finding::refuted}) {
        by_.says = {{ladder_step::standard, now}, {ladder_step::pcie, now}};
        EXPECT_EQ((now == finding::refuted) ? UCS_ERR_UNSUPPORTED : UCS_OK,
                  reg());
    }
    by_.refuted.clear();
    by_.says = {};
    EXPECT_EQ(UCS_OK, reg());
}

} // namespace
