// SPDX-License-Identifier: BSD-3-Clause
#include <climits>
#include <gtest/gtest.h>
#include <thread>
#include <uct/ib_dmabuf/cache/reclaim/references.h>

// Counts of references by themselves. test/gtest/interleave has the rest.
namespace {

using ucx_ib_dmabuf::references;

class references_test : public testing::Test {
protected:
    // Places that are taken, and so of no use to other objects.
    unsigned taken() const
    {
        unsigned result = 0;
        for (auto &place : mine->hot) {
            result += references::count_in(place) != 0;
        }
        return result;
    }

    references all;
    std::mutex lock;
    references::record *const mine = all.prepare(lock);
};

// One thread acquires and another one gives back, for hours.
TEST_F(references_test, counts_may_go_round)
{
    for (uint32_t object : {7u, 7u + references::hot_counts}) {
        mine->add(object, INT_MAX);
        mine->add(object, 2);
    }
    std::thread([this] {
        references::record *other = all.prepare(lock);
        for (uint32_t object : {7u, 7u + references::hot_counts}) {
            other->add(object, -INT_MAX);
            other->add(object, -1);
        }
    }).join();
    EXPECT_EQ(all.total(7), 1u);
    EXPECT_EQ(all.total(7 + references::hot_counts), 1u);
}

TEST_F(references_test, a_hot_count_that_goes_round_is_of_nobody)
{
    constexpr uint32_t object = 7, next = object + references::hot_counts;
    mine->add(object, INT_MAX);
    mine->add(object, INT_MAX);
    mine->add(object, 2);
    EXPECT_EQ(all.total(object), 0u);
    EXPECT_EQ(taken(), 0u);
    mine->add(next, 1);
    EXPECT_EQ(all.total(next), 1u);
    EXPECT_EQ(all.total(object), 0u);
}

// The first one in is the first one out, as messages are.
TEST_F(references_test, what_is_given_back_holds_no_place)
{
    mine->add(1, 1);
    mine->add(1 + references::hot_counts, 1);
    mine->add(1, -1);
    mine->add(1 + references::hot_counts, -1);
    EXPECT_EQ(taken(), 0u);
    // Of a thread that acquires nothing, either.
    mine->add(2, -1);
    EXPECT_EQ(taken(), 0u);
}

} // namespace
