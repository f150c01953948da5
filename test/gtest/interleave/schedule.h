// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_SCHEDULE_H_
#define TEST_GTEST_INTERLEAVE_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace interleave {

// The choices of one execution after the other: depth first through all that
// need at most so many departures from the first choice, or random ones.
class schedule {
public:
    explicit schedule(unsigned bound) : bound_(bound) {}
    schedule(unsigned seed, uint64_t count)
        : bound_(UINT32_MAX), left_(count), random_(std::in_place, seed)
    {
    }

    // One of so many that cost nothing.
    unsigned choose(unsigned count);
    // The same, but any but the first one is a departure.
    unsigned depart(unsigned count);
    bool may_depart() const { return spent_ < bound_; }
    // Whether there is another execution.
    bool next();
    uint64_t executions() const { return executions_; }

private:
    struct choice {
        unsigned taken, count;
    };

    unsigned take(unsigned count);

    const unsigned bound_;
    uint64_t left_       = 0; // random ones
    uint64_t executions_ = 1;
    unsigned spent_      = 0;
    unsigned rarity_     = 4; // of random departures
    size_t at_           = 0;
    std::vector<choice> path_;
    std::optional<std::minstd_rand> random_;
};

} // namespace interleave

#endif
