// SPDX-License-Identifier: BSD-3-Clause
#include "mutants.h"
#include "scenarios.h"
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/cache/reclaim/fence.h>

// The cache in every order of its steps: nothing goes wrong; and without each
// thing that it does for that, something does.
namespace {

using namespace interleave;

constexpr uint64_t random_executions = 10000;

struct named_mutant {
    const char *name;
    mutant what;
    const std::vector<named_scenario> *noticed_in;
};
constexpr named_mutant mutants[] = {
#define INTERLEAVE_NAME(_name) {#_name, mutant::_name, &reclaim_scenarios},
    INTERLEAVE_RECLAIM_MUTANTS(INTERLEAVE_NAME)
#undef INTERLEAVE_NAME
#define INTERLEAVE_NAME(_name) {#_name, mutant::_name, &hit_scenarios},
        INTERLEAVE_CACHE_MUTANTS(INTERLEAVE_NAME)
#undef INTERLEAVE_NAME
};

// With membarrier, or with full fences on both sides.
class fences_test : public testing::Test {
protected:
    explicit fences_test(bool asymmetric)
    {
        ucx_ib_dmabuf::fence::asymmetric = asymmetric;
    }
    ~fences_test() override { left_out = mutant::none; }
};

class every_order
    : public fences_test,
      public testing::WithParamInterface<std::tuple<named_scenario, bool>> {
protected:
    every_order() : fences_test(std::get<bool>(GetParam())) {}
};

TEST_P(every_order, is_right)
{
    auto [name, bound, make] = std::get<named_scenario>(GetParam());
    outcome result           = explore(make, schedule(bound));
    EXPECT_EQ(result.violation, "") << result.trace;
    printf("%llu executions\n",
           static_cast<unsigned long long>(result.executions));
    EXPECT_GT(result.executions, 200u);
}

TEST_P(every_order, at_random)
{
    auto [name, bound, make] = std::get<named_scenario>(GetParam());
    unsigned seed            = std::random_device()();
    if (const char *given = getenv("INTERLEAVE_SEED")) {
        seed = strtoul(given, nullptr, 0);
    }
    printf("INTERLEAVE_SEED=%u\n", seed);
    outcome result = explore(make, schedule(seed, random_executions));
    EXPECT_EQ(result.violation, "") << result.trace;
    EXPECT_EQ(result.executions, random_executions);
}

std::string mode(bool asymmetric)
{
    return asymmetric ? "_with_membarrier" : "_with_full_fences";
}

std::string
scenario_name(const testing::TestParamInfo<every_order::ParamType> &one)
{
    return std::get<named_scenario>(one.param).name +
           mode(std::get<bool>(one.param));
}

INSTANTIATE_TEST_SUITE_P(reclaim, every_order,
                         testing::Combine(testing::ValuesIn(reclaim_scenarios),
                                          testing::Bool()),
                         scenario_name);
INSTANTIATE_TEST_SUITE_P(hits, every_order,
                         testing::Combine(testing::ValuesIn(hit_scenarios),
                                          testing::Bool()),
                         scenario_name);
INSTANTIATE_TEST_SUITE_P(regions, every_order,
                         testing::Combine(testing::ValuesIn(region_scenarios),
                                          testing::Bool()),
                         scenario_name);

class left_out_test
    : public fences_test,
      public testing::WithParamInterface<std::tuple<named_mutant, bool>> {
protected:
    left_out_test() : fences_test(std::get<bool>(GetParam())) {}

    // The fewest departures, and the scenario, that something goes wrong in.
    static std::string find(const std::vector<named_scenario> &scenarios)
    {
        for (unsigned bound = 0; bound <= 2; ++bound) {
            for (const named_scenario &each : scenarios) {
                outcome result = explore(each.make, schedule(bound));
                if (!result.violation.empty()) {
                    return std::string(each.name) + ", execution " +
                           std::to_string(result.executions) + " of bound " +
                           std::to_string(bound) + ": " + result.violation;
                }
            }
        }
        return "";
    }
};

TEST_P(left_out_test, is_noticed)
{
    auto [what, asymmetric] = GetParam();
    left_out                = what.what;
    std::string found       = find(*what.noticed_in);
    printf("%s\n", found.c_str());
    EXPECT_NE(found, "");
    EXPECT_EQ(found.find("ended early"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(mutants, left_out_test,
                         testing::Combine(testing::ValuesIn(mutants),
                                          testing::Bool()),
                         [](const auto &one) {
                             return std::get<named_mutant>(one.param).name +
                                    mode(std::get<bool>(one.param));
                         });

} // namespace
