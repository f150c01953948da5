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
extern const std::vector<named_scenario> scenarios;

} // namespace interleave

#endif
