// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <random>
#include <thread>
#include <uct/ib_dmabuf/cache/address_index.h>

// The index by itself, against std::map, at the places where granules, leaves
// and trees meet.
namespace {

using namespace ucx_ib_dmabuf;

class index_test : public testing::Test {
protected:
    cached_region *add(uintptr_t lo, uintptr_t hi)
    {
        cached_region *e = pool.take();
        e->bytes         = {lo, hi};
        EXPECT_TRUE(map.insert(e));
        return e;
    }
    void drop(cached_region *e)
    {
        map.erase(e);
        pool.give(e);
    }
    cached_region *find(uintptr_t at) const { return map.find(at, 1); }

    region_pool pool;
    address_index map;
};

TEST_F(index_test, covers_exactly)
{
    for (uintptr_t lo : {uintptr_t{4096}, uintptr_t{1} << 34,
                         (uintptr_t{1} << 47) - 4096, uintptr_t{1} << 60}) {
        cached_region *e = add(lo, lo + 8192);
        EXPECT_EQ(find(lo), e);
        EXPECT_EQ(find(lo + 8191), e);
        EXPECT_EQ(find(lo - 1), nullptr);
        EXPECT_EQ(find(lo + 8192), nullptr);
        EXPECT_EQ(map.find(lo, 8193), nullptr);
        EXPECT_EQ(map.first({lo - 4096, lo}), nullptr);
        EXPECT_EQ(map.first({0, UINTPTR_MAX}), e);
        drop(e);
        EXPECT_EQ(find(lo), nullptr);
    }
}

TEST_F(index_test, spans_leaves_and_trees)
{
    constexpr uintptr_t GiB = uintptr_t{1} << 30;
    for (uintptr_t middle : {16 * GiB, uintptr_t{1} << 47}) {
        cached_region *e =
            add(middle - 20 * GiB + 4096 > middle ? 4096 : middle - 3 * GiB,
                middle + 40 * GiB);
        EXPECT_EQ(find(middle - 1), e);
        EXPECT_EQ(find(middle), e);
        EXPECT_EQ(find(middle + 39 * GiB), e);
        EXPECT_EQ(map.first({middle + 40 * GiB, UINTPTR_MAX}), nullptr);
        drop(e);
        EXPECT_EQ(map.first({0, UINTPTR_MAX}), nullptr);
    }
}

TEST_F(index_test, the_end_of_the_address_space)
{
    cached_region *e = add(UINTPTR_MAX - 8191, UINTPTR_MAX);
    EXPECT_EQ(find(UINTPTR_MAX - 1), e);
    EXPECT_EQ(map.first({UINTPTR_MAX - 5, UINTPTR_MAX}), e);
    drop(e);
    EXPECT_EQ(map.first({UINTPTR_MAX - 5, UINTPTR_MAX}), nullptr);
}

TEST_F(index_test, does_what_a_map_does)
{
    unsigned seed = std::random_device()();
    printf("seed %u\n", seed);
    std::mt19937 random(seed);
    std::map<uintptr_t, cached_region *> model;
    constexpr uintptr_t base = (uintptr_t{1} << 34) - (3 << 20);
    for (int i = 0; i < 30000; ++i) {
        uintptr_t at  = base + random() % (6 << 20);
        auto next     = model.lower_bound(at);
        uintptr_t end = next == model.end() ? base + (6 << 20) : next->first;
        auto here     = next == model.begin() ? model.end() : std::prev(next);
        if (here != model.end() && here->second->bytes.hi <= at) {
            here = model.end();
        }
        cached_region *expected = here == model.end() ? nullptr : here->second;
        if (next != model.end() && next->first == at) {
            expected = next->second;
        }
        ASSERT_EQ(find(at), expected);
        cached_region *first = expected != nullptr   ? expected
                               : next != model.end() ? next->second
                                                     : nullptr;
        ASSERT_EQ(map.first({at, UINTPTR_MAX}), first);
        if (expected != nullptr && random() % 2 == 0) {
            model.erase(expected->bytes.lo);
            drop(expected);
        } else if (expected == nullptr) {
            // Mostly short, sometimes all there is.
            size_t room = end - at;
            size_t size = random() % 50 == 0 ? room : 1 + random() % 60000;
            model[at]   = add(at, at + std::min(size, room));
        }
    }
    while (!model.empty()) {
        drop(model.begin()->second);
        model.erase(model.begin());
    }
    EXPECT_EQ(map.first({0, UINTPTR_MAX}), nullptr);
}

// Store, fence, load on both sides: at least one load sees the other's store.
// The two meet in rounds; on one CPU, or a busy one, rarely at once.
TEST(fence_test, one_side_sees_the_other)
{
    struct alignas(64) word {
        std::atomic<int> value{0};
    };
    word x, y, turn, seen;
    constexpr int rounds = 30000;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    std::thread light([&] {
        for (int round = 1;; ++round) {
            int now;
            while ((now = turn.value.load(std::memory_order_acquire)) < round) {
            }
            if (now > rounds) {
                return;
            }
            x.value.store(round, fence::store_order);
            fence::light();
            int other = y.value.load(fence::load_order);
            seen.value.store(other == round ? round : -round,
                             std::memory_order_release);
        }
    });
    int neither = 0;
    for (int round = 1; round <= rounds; ++round) {
        turn.value.store(round, std::memory_order_release);
        // Not always at the same distance.
        for (int i = 0; i < round % 64; ++i) {
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
        y.value.store(round, fence::store_order);
        fence::heavy();
        bool saw = x.value.load(fence::load_order) == round;
        int other;
        while (std::abs(other = seen.value.load(std::memory_order_acquire)) !=
               round) {
        }
        neither += !saw && other < 0;
        if (std::chrono::steady_clock::now() > end) {
            break;
        }
    }
    turn.value = rounds + 1;
    light.join();
    EXPECT_EQ(neither, 0);
}

} // namespace
