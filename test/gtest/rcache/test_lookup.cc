// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <random>
#include <set>

// The regions that a look-up or an event finds.
namespace {

constexpr size_t KiB = 1024;
using lookup_test    = cache_test;

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

// Each of the overlapping regions has bytes of its own.
TEST_F(lookup_test, regions_that_overlap)
{
    settings.chunk_size = 4 * MiB;
    restart();
    gpu.alloc(A, 16 * MiB);
    const region *first  = hold(A, 1);               // [0, 4) MiB
    const region *border = hold(A + 4 * MiB - 1, 2); // [2, 6)
    const region *second = hold(A + 6 * MiB, 2);     // [4, 8)
    const struct {
        uintptr_t at;
        size_t length;
        const region *expected;
    } all[] = {{A, 4 * MiB, first},
               {A + 3 * MiB, MiB + 1, border},
               {A + 2 * MiB, 4 * MiB, border},
               {A + 4 * MiB, 4 * MiB, second},
               {A + 2 * MiB - 1, 2 * MiB + 2, nullptr},
               {A + 3 * MiB, 4 * MiB, nullptr}};
    for (auto [at, length, expected] : all) {
        const region *found = cache->find(id, at, length);
        EXPECT_EQ(found, expected);
        cache->put(found);
    }
    for (const region *each : {first, border, second}) {
        cache->put(each);
    }
    cache->invalidate(A + 3 * MiB, 1);
    EXPECT_EQ(nic.live(), 1u);
    cache->invalidate(A + 6 * MiB, 1);
    EXPECT_EQ(nic.live(), 0u);
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

TEST_F(lookup_test, events_find_all_of_their_range)
{
    const unsigned seed = std::random_device()();
    printf("seed %u\n", seed);
    std::mt19937 random(seed);
    std::set<unsigned> there; // registered places
    for (unsigned i = 0; i < 64; ++i) {
        gpu.alloc(A + i * 64 * KiB, (1 + random() % 16) * 4 * KiB);
    }
    for (int round = 0; round < 3000; ++round) {
        for (int i = 0; i < 4; ++i) {
            const unsigned which = random() % 64;
            use(A + which * 64 * KiB, 1);
            there.insert(which);
        }
        const uintptr_t lo = A + random() % (64 * 64 * KiB);
        const size_t size  = 1 + random() % (8 * 64 * KiB);
        cache->invalidate(lo, size);
        std::erase_if(there, [&](unsigned each) {
            const uintptr_t base = A + each * 64 * KiB;
            return base < lo + size && lo < base + gpu.size_at(base);
        });
        ASSERT_EQ(nic.live(), there.size());
    }
}

} // namespace
