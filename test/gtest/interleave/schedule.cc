// SPDX-License-Identifier: BSD-3-Clause
#include "schedule.h"
#include <cstdio>
#include <cstdlib>

namespace interleave {

unsigned schedule::take(unsigned count)
{
    if (at_ == path_.size()) {
        path_.push_back({0, count});
    } else if (path_[at_].count != count) {
        fprintf(stderr, "what is explored is not deterministic\n");
        abort();
    }
    return path_[at_++].taken;
}

unsigned schedule::choose(unsigned count)
{
    if (count <= 1) {
        return 0;
    }
    return random_ ? (*random_)() % count : take(count);
}

unsigned schedule::depart(unsigned count)
{
    if (count <= 1 || !may_depart()) {
        return 0;
    }
    if (random_) {
        return (*random_)() % rarity_ == 0 ? 1 + (*random_)() % (count - 1) : 0;
    }
    unsigned taken = take(count);
    spent_ += taken != 0;
    return taken;
}

bool schedule::next()
{
    at_    = 0;
    spent_ = 0;
    if (random_) {
        rarity_ = 2u << (*random_)() % 6;
        executions_ += left_ > 1;
        return left_ > 0 && --left_ > 0;
    }
    while (!path_.empty() && path_.back().taken + 1 == path_.back().count) {
        path_.pop_back();
    }
    if (path_.empty()) {
        return false;
    }
    ++path_.back().taken;
    ++executions_;
    return true;
}

} // namespace interleave
