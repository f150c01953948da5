// SPDX-License-Identifier: BSD-3-Clause
//
// What is taken for changed in a host copy, compared with a loop over its
// bytes.
#include "../../../src/uct/ib_dmabuf/md/changes.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>

using namespace ucx_ib_dmabuf;

namespace {

std::string merge_runs(const std::string &now, const std::string &before,
                       std::string target)
{
    for (size_t from = 0;;) {
        const changed_run run =
            find_changes(now.data(), before.data(), from, now.size());
        if (run.begin == run.end) {
            return target;
        }
        EXPECT_GE(run.begin, from);
        EXPECT_LE(run.end, now.size());
        EXPECT_NE(now[run.begin], before[run.begin]);
        EXPECT_NE(now[run.end - 1], before[run.end - 1]);
        merge_changes(&target[run.begin], &now[run.begin], &before[run.begin],
                      run.end - run.begin);
        from = run.end;
    }
}

TEST(test_changes, of_any_bytes)
{
    const auto seed = static_cast<unsigned>(std::random_device{}());
    std::mt19937 random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));

    for (int round = 0; round < 400; ++round) {
        std::string before(1 + random() % 40000, '\0'), other = before;
        for (size_t i = 0; i < before.size(); ++i) {
            before[i] = static_cast<char>(random());
            other[i]  = static_cast<char>(random());
        }
        // Pieces of all sizes, also with values as before.
        std::string now = before;
        for (unsigned pieces = random() % 8; pieces > 0; --pieces) {
            const size_t begin = random() % now.size();
            size_t end         = begin + (size_t{1} << (random() % 16));
            for (end = std::min(end, now.size()); end > begin; --end) {
                now[end - 1] = static_cast<char>(random());
            }
        }
        std::string expected = other;
        for (size_t i = 0; i < now.size(); ++i) {
            if (now[i] != before[i]) {
                expected[i] = now[i];
            }
        }
        ASSERT_EQ(expected, merge_runs(now, before, other))
            << "round " << round;
    }
}

TEST(test_changes, a_long_gap_belongs_to_no_run)
{
    for (size_t gap : {max_unchanged_gap, max_unchanged_gap + 1}) {
        const std::string before(100000, 'b');
        std::string now     = before;
        now[5000]           = 'n';
        now[5000 + gap + 1] = 'n';
        const changed_run first =
            find_changes(now.data(), before.data(), 0, now.size());
        EXPECT_EQ(5000u, first.begin);
        EXPECT_EQ((gap > max_unchanged_gap) ? 5001 : 5000 + gap + 2, first.end);
    }
}

TEST(test_changes, the_end_of_a_short_copy)
{
    for (size_t length = 0; length < 40; ++length) {
        const std::string before(length, 'b'), now(length, 'n');
        EXPECT_EQ(now, merge_runs(now, before, before));
        EXPECT_EQ(before, merge_runs(before, before, before));
    }
}

// The best of many turns, beside memcmp's: a loop over the bytes takes five
// times as long.
TEST(test_changes, compares_about_as_fast_as_memcmp)
{
    using clock = std::chrono::steady_clock;
    const std::string before(128 << 10, 'b'), now = before;
    auto ours   = clock::duration::max();
    auto theirs = clock::duration::max();

    for (int turn = 0; turn < 200; ++turn) {
        const auto start = clock::now();
        const changed_run run =
            find_changes(now.data(), before.data(), 0, now.size());
        const auto middle = clock::now();
        const int result  = memcmp(now.data(), before.data(), now.size());
        const auto end    = clock::now();

        ASSERT_EQ(now.size(), run.begin);
        ASSERT_EQ(0, result);
        ours   = std::min(ours, middle - start);
        theirs = std::min(theirs, end - middle);
    }
    EXPECT_LT(ours, 3 * theirs);
}

} // namespace
