// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"

// The regions that a look-up or an event finds.
namespace {

using lookup_test = cache_test;

TEST_F(lookup_test, a_region_serves_its_bytes_only)
{
    for (uintptr_t lo :
         {uintptr_t{4096}, uintptr_t{1} << 34, (uintptr_t{1} << 47) - 4096,
          uintptr_t{1} << 60, uintptr_t{0} - 3 * 4096}) {
        gpu.alloc(lo, 8192);
        const region *all = hold(lo, 8192);
        for (uintptr_t at : {lo, lo + 8191}) {
            const region *found = cache->find(id, at, 1);
            EXPECT_EQ(found, all);
            cache->put(found);
        }
        EXPECT_EQ(cache->find(id, lo - 1, 1), nullptr);
        EXPECT_EQ(cache->find(id, lo - 1, 2), nullptr);
        EXPECT_EQ(cache->find(id, lo + 8192, 1), nullptr);
        EXPECT_EQ(cache->find(id, lo, 8193), nullptr);
        EXPECT_EQ(cache->find(id, lo, SIZE_MAX), nullptr);
        EXPECT_EQ(cache->find(id, lo, 0), nullptr);
        cache->put(all);
        cache->invalidate(lo - 4096, 4096);
        cache->invalidate(lo + 8192, 4096);
        EXPECT_EQ(nic.live(), 1u);
        cache->invalidate(lo + 8191, 1);
        EXPECT_EQ(nic.live(), 0u);
        gpu.free(lo);
    }
}

// Any number of releases may happen between a description and its use.
TEST_F(lookup_test, what_was_released_meanwhile_is_described_again)
{
    for (int others : {0, 255, 256, 257}) {
        gpu.alloc(A, 2 * MiB);
        gpu.after_describe = [&] {
            release(A);
            gpu.alloc(A, MiB);
            gpu.alloc(A + MiB, MiB);
            for (int i = 0; i < others; ++i) {
                cache->invalidate(A + 64 * MiB, 1);
            }
        };
        use(A, 1);
        EXPECT_EQ(get(A + MiB - 1, 2), UCS_ERR_INVALID_PARAM);
        release(A);
        release(A + MiB);
    }
}

} // namespace
