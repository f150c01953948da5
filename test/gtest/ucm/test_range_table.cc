// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "ucm/range_table.h"

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

constexpr uint64_t BASE = 0x7f0000000000;
constexpr size_t MIB    = 1 << 20;
constexpr uint64_t POOL = 7, OTHER_POOL = 8;

TEST(RangeTable, RemovesOnce)
{
    range_table table;
    table.insert({BASE, MIB});
    EXPECT_EQ(MIB, table.size(BASE));
    EXPECT_EQ(0u, table.remove(BASE + 512));
    EXPECT_EQ(MIB, table.remove(BASE));
    EXPECT_EQ(0u, table.remove(BASE));
}

TEST(RangeTable, InexactSizeIsNoSize)
{
    range_table table;
    table.insert({BASE, MIB, 0, state::in_use, false});
    EXPECT_EQ(0u, table.size(BASE));
    EXPECT_EQ(1u, table.snapshot().size());
    EXPECT_EQ(0u, table.remove(BASE));
    EXPECT_TRUE(table.snapshot().empty());
}

TEST(RangeTable, PoolTakesWhatWasRetired)
{
    range_table table;
    table.insert({BASE, MIB, POOL});
    table.insert({BASE + MIB, MIB, POOL});
    table.insert({BASE + 2 * MIB, MIB, OTHER_POOL});
    EXPECT_EQ(MIB, table.retire(BASE));
    EXPECT_EQ(MIB, table.retire(BASE + 2 * MIB));

    const auto taken = table.take_owned(POOL);
    ASSERT_EQ(1u, taken.size());
    EXPECT_EQ(BASE, taken[0].base);
    EXPECT_EQ(MIB, taken[0].size);
    EXPECT_TRUE(table.take_owned(POOL).empty());
    EXPECT_EQ(1u, table.take_owned(OTHER_POOL).size());
}

TEST(RangeTable, UnknownPoolGoesWithAny)
{
    range_table table;
    table.insert({BASE, MIB});
    table.retire(BASE);
    EXPECT_EQ(1u, table.take_owned(POOL).size());
}

// What was given out again must not be announced as released.
TEST(RangeTable, SparesMemoryInUse)
{
    for (const uint64_t offset : {uint64_t(0) + 64, uint64_t(MIB) - 512}) {
        range_table table;
        table.insert({BASE, MIB, POOL});
        table.retire(BASE);
        table.insert({BASE + offset, 64, POOL});
        EXPECT_TRUE(table.take_owned(POOL).empty()) << offset;
    }
    range_table table;
    table.insert({BASE, MIB, POOL});
    table.retire(BASE);
    table.insert({BASE - MIB, MIB, POOL});
    table.insert({BASE + MIB, MIB, POOL});
    EXPECT_EQ(1u, table.take_owned(POOL).size());
}

TEST(RangeTable, NewAllocationIsNotRetired)
{
    range_table table;
    table.insert({BASE, MIB, POOL});
    table.retire(BASE);
    table.insert({BASE, 2 * MIB, POOL});
    EXPECT_TRUE(table.take_owned(POOL).empty());
    EXPECT_EQ(2 * MIB, table.size(BASE));
}

TEST(RangeTable, OwnedGoesWithItsOwnerOnly)
{
    range_table table;
    table.insert({BASE, MIB, POOL, state::owned});
    EXPECT_TRUE(table.take_owned(OTHER_POOL).empty());
    EXPECT_EQ(1u, table.take_owned(POOL).size());
}

// Memory that was released unseen does not hide what is there now.
TEST(RangeTable, OwnedGoesWhateverSeemsToBeInUse)
{
    range_table table;
    table.insert({BASE, MIB});
    table.insert({BASE + 512, 512, POOL, state::owned});
    const auto taken = table.take_owned(POOL);
    ASSERT_EQ(1u, taken.size());
    EXPECT_EQ(BASE + 512, taken[0].base);
    EXPECT_EQ(state::owned, taken[0].is);
}

TEST(RangeTable, ShowsWhatIsNewer)
{
    range_table table;
    table.insert({BASE, MIB});
    const uint64_t serial = table.serial();
    EXPECT_TRUE(table.newer_than(serial).empty());
    table.insert({BASE + MIB, MIB, POOL});
    table.insert({BASE + 2 * MIB, MIB, POOL});
    table.retire(BASE + 2 * MIB);
    const auto newer = table.newer_than(serial);
    ASSERT_EQ(1u, newer.size());
    EXPECT_EQ(BASE + MIB, newer[0].base);
}

TEST(RangeTable, CoversWhatIsThere)
{
    range_table table;
    table.insert({BASE, MIB});
    table.insert({BASE + 2 * MIB, MIB, POOL});
    EXPECT_TRUE(table.covers(BASE));
    EXPECT_TRUE(table.covers(BASE + MIB - 1));
    EXPECT_FALSE(table.covers(BASE + MIB));
    EXPECT_FALSE(table.covers(BASE - 1));
    table.retire(BASE + 2 * MIB); // its pool has it still
    EXPECT_TRUE(table.covers(BASE + 2 * MIB + 1));
    table.remove(BASE);
    EXPECT_FALSE(table.covers(BASE));
}

TEST(RangeTable, DoubtIsOfOneInsertion)
{
    range_table table;
    table.insert({BASE, MIB});
    const auto seen = table.snapshot();
    table.insert({BASE, 2 * MIB});
    table.doubt(seen[0]);
    EXPECT_EQ(2 * MIB, table.size(BASE));
    table.doubt(table.snapshot()[0]);
    EXPECT_EQ(0u, table.size(BASE));
    EXPECT_EQ(1u, table.snapshot().size());
}

// Memory that is never freed twice at an address must not pile up.
TEST(RangeTable, ForgetsRetiredWhenItGrows)
{
    constexpr size_t COUNT = 1 << 20;
    range_table table;
    table.insert({BASE - MIB, MIB, POOL});
    table.insert({BASE - 2 * MIB, MIB, POOL, state::owned});
    for (size_t i = 0; i < COUNT; ++i) {
        table.insert({BASE + i * MIB, MIB, POOL});
        table.retire(BASE + i * MIB);
    }
    EXPECT_GT(COUNT / 2, table.snapshot().size());
    EXPECT_EQ(MIB, table.size(BASE - MIB));
    EXPECT_EQ(MIB, table.size(BASE - 2 * MIB));
}

} // namespace
} // namespace ucx_ib_dmabuf
