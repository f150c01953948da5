// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_EXPLORE_H_
#define TEST_GTEST_INTERLEAVE_EXPLORE_H_

#include "machine.h"

namespace interleave {

// Some threads and what they share, made anew for each execution.
class scenario {
public:
    scenario()                            = default;
    virtual ~scenario()                   = default;
    scenario(const scenario &)            = delete;
    scenario &operator=(const scenario &) = delete;

    // After the last one has ended.
    virtual void finish() {}

    std::vector<std::function<void()>> threads;

protected:
    // What a thread does first, alone, and then beside the others.
    void add(const std::function<void()> &first,
             const std::function<void()> &then);
};
using maker = std::function<std::unique_ptr<scenario>()>;

struct outcome {
    uint64_t executions = 0;
    std::string violation; // the first one; empty: none
    std::string trace;
};

// One execution after the other until one goes wrong. In a child process: what
// goes wrong there stays there.
outcome explore(const maker &make, schedule order);

} // namespace interleave

#endif
