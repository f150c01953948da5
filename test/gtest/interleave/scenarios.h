// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_SCENARIOS_H_
#define TEST_GTEST_INTERLEAVE_SCENARIOS_H_

#include "explore.h"

namespace interleave {

struct named_scenario {
    const char *name;
    unsigned bound; // departures up to which every order is tried
    maker make;
};
extern const std::vector<named_scenario> hit_scenarios;
extern const std::vector<named_scenario> region_scenarios;
extern const std::vector<named_scenario> reclaim_scenarios;

template <typename T>
named_scenario named(const char *name, unsigned bound)
{
    return {name, bound, [] { return std::make_unique<T>(); }};
}
#define SCENARIO(_name, _bound) named<_name>(#_name, _bound)

} // namespace interleave

#endif
