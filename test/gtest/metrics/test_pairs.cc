// SPDX-License-Identifier: BSD-3-Clause
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/metrics/pairs.h>

using namespace ucx_ib_dmabuf;

namespace {

uint64_t registrations(const pair_row &row)
{
    return row.values()[static_cast<size_t>(pair_metric::registrations)];
}

TEST(test_pairs, each_has_a_row_for_good)
{
    pair_table all;
    pair_row &first = all.of("mlx5_0", 0);

    EXPECT_NE(&first, &all.of("mlx5_0", 1));
    EXPECT_NE(&first, &all.of("mlx5_1", 0));
    EXPECT_NE(&first, &all.of("mlx5_00", 0));
    first.add_region(memory_path::standard, 1);
    all.clear();
    EXPECT_EQ(&first, &all.of("mlx5_0", 0));
    EXPECT_EQ(0u, registrations(first));
}

TEST(test_pairs, those_beyond_the_table_share_a_row)
{
    pair_table all;
    int last = 0;

    for (int gpu = 0; gpu < int{pair_table::max_pairs}; ++gpu) {
        EXPECT_EQ(gpu, all.of("a", gpu).gpu());
    }
    EXPECT_STREQ("others", all.of("b", 0).nic());
    EXPECT_EQ(&all.of("b", 0), &all.of("c", 7));
    all.of("b", 0).add_region(memory_path::standard, 1);
    all.each([&](const pair_row &row) { last = row.gpu(); });
    EXPECT_EQ(-1, last);
}

// Whoever they are of, also where there is no row left.
TEST(test_pairs, fallbacks_are_summed)
{
    constexpr auto ucp     = fallback_way::ucp;
    constexpr auto no_room = fallback_cause::no_room;
    pair_table all;

    for (int gpu = -1; gpu < int{pair_table::max_pairs} + 1; ++gpu) {
        all.of("a", gpu).add_fallback(ucp, no_room, 10);
    }
    all.of("a", 0).add_fallback(ucp, fallback_cause::busy, 1);
    all.of("a", 0).add_fallback(fallback_way::error, no_room, 2);
    const auto of_ucp = all.fallbacks()[static_cast<size_t>(ucp)];
    const auto &sum   = of_ucp[static_cast<size_t>(no_room)];
    EXPECT_EQ(pair_table::max_pairs + 2, sum.operations);
    EXPECT_EQ(10 * (pair_table::max_pairs + 2), sum.bytes);
    const pair_row &row = all.of("a", 0);
    EXPECT_EQ(11u, row.bytes()[static_cast<size_t>(memory_path::ucp)]);
    EXPECT_EQ(2u, row.bytes()[static_cast<size_t>(memory_path::error)]);
    EXPECT_EQ(2u, row.fallbacks()[static_cast<size_t>(no_room)]);
    all.clear();
    EXPECT_EQ(0u, all.fallbacks()[static_cast<size_t>(ucp)][0].operations);
    EXPECT_FALSE(row.counts_anything());
}

TEST(test_pairs, a_long_name_is_cut_off)
{
    pair_table all;
    const std::string name(100, 'x');

    EXPECT_EQ(name.substr(0, 63), all.of(name.c_str(), 0).nic());
    EXPECT_EQ(&all.of(name.c_str(), 0), &all.of(name.c_str(), 0));
}

// Whoever comes first: none is lost, none is there twice.
TEST(test_pairs, threads_find_the_same_rows)
{
    constexpr int threads = 8, pairs = 100;
    static pair_table all;
    int rows = 0;

    in_threads(threads, [](unsigned) {
        for (int gpu = 0; gpu < pairs; ++gpu) {
            all.of("mlx5_0", gpu).add_region(memory_path::standard, 1);
        }
    });
    all.each([&](const pair_row &row) {
        EXPECT_EQ(uint64_t{threads}, registrations(row)) << row.gpu();
        ++rows;
    });
    EXPECT_EQ(pairs, rows);
}

} // namespace
