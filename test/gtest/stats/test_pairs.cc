// SPDX-License-Identifier: BSD-3-Clause
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/stats/counters.h>

using namespace ucx_ib_dmabuf;

namespace {

struct test_pairs : testing::Test {
    counters all{};
};

TEST_F(test_pairs, each_has_a_row_for_good)
{
    pair_row &first = all.of("mlx5_0", 0);

    EXPECT_NE(&first, &all.of("mlx5_0", 1));
    EXPECT_NE(&first, &all.of("mlx5_1", 0));
    EXPECT_NE(&first, &all.of("mlx5_00", 0));
    first.add_region(0, 1);
    all.clear();
    EXPECT_EQ(&first, &all.of("mlx5_0", 0));
    EXPECT_EQ(0u, first.get("registrations"));
}

TEST_F(test_pairs, those_beyond_the_table_share_a_row)
{

    for (int gpu = 0; gpu < int{counters::max_pairs}; ++gpu) {
        EXPECT_EQ(gpu, all.of("a", gpu).gpu);
    }
    EXPECT_EQ("others", std::string_view(all.of("b", 0).nic));
    EXPECT_EQ(&all.of("b", 0), &all.of("c", 7));
    all.of("b", 0).add_region(0, 1);
    EXPECT_EQ(-1, all.of("b", 0).gpu);
}

// The sums include all pairs, even those without a row.
TEST_F(test_pairs, fallbacks_are_summed)
{
    constexpr auto ucp     = fallback_way::ucp;
    constexpr auto no_room = fallback_cause::no_room;
    constexpr size_t label = 1 * 4 + 1; // ucp, no_room
    const pair_row &row    = all.of("a", 0);

    for (int gpu = -1; gpu < int{counters::max_pairs} + 1; ++gpu) {
        all.add_fallback(ucp, no_room, "a", gpu, 10);
    }
    all.add_fallback(ucp, fallback_cause::busy, "a", 0, 1);
    all.add_fallback(fallback_way::error, no_room, "a", 0, 2);
    EXPECT_EQ(counters::max_pairs + 2, all.get("fallback_operations", label));
    EXPECT_EQ(10 * (counters::max_pairs + 2), all.get("fallback_bytes", label));
    EXPECT_EQ(1u, row.get("fallback_operations", label));
    EXPECT_EQ(10u, row.get("fallback_bytes", label));
    EXPECT_EQ(2u, row.get("fallback_bytes", 2 * 4 + 1)); // error, no_room
    all.clear();
    EXPECT_EQ(0u, all.get("fallback_operations", label));
    EXPECT_EQ(0u, row.get("fallback_bytes", label));
}

TEST_F(test_pairs, a_long_name_is_cut_off)
{
    const std::string name(100, 'x');

    EXPECT_EQ(name.substr(0, 63), std::string_view(all.of(name, 0).nic));
    EXPECT_EQ(&all.of(name, 0), &all.of(name, 0));
}

// No row is lost or duplicated, whichever thread comes first.
TEST_F(test_pairs, threads_find_the_same_rows)
{
    constexpr int threads = 8, pairs = 100;
    int rows = 0;

    in_threads(threads, [this](unsigned) {
        for (int gpu = 0; gpu < pairs; ++gpu) {
            all.of("mlx5_0", gpu).add_region(0, 1);
        }
    });
    all.each_pair([&](const pair_row &row) {
        rows += row.get("registrations") == threads ? 1 : 0;
    });
    EXPECT_EQ(pairs, rows);
}

} // namespace
