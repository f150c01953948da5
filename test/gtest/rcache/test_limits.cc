// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <set>
#include <string>

// The budget, and the cache's behaviour when there is no room.
namespace {

class limits_test : public cache_test {
protected:
    void start(size_t bytes, size_t regions = SIZE_MAX)
    {
        settings.max_bytes   = [bytes](int) { return bytes; };
        settings.max_regions = regions;
        settings.warn = [this](const char *what) { warnings.insert(what); };
        restart();
        for (int i = 0; i < 8; ++i) {
            gpu.alloc(at(i), 4 * MiB, i / 4);
        }
    }
    bool registered(int i)
    {
        bool found = false;
        nic.each([&](const fakes::registration &each) {
            found |=
                each.address <= at(i) && at(i) < each.address + each.length;
        });
        return found;
    }
    std::set<std::string> warnings;
};

TEST_F(limits_test, least_recently_used_goes_first)
{
    start(12 * MiB);
    use(at(0), 1);
    use(at(1), 1);
    use(at(2), 1);
    use(at(0), 1);
    use(at(3), 1); // evicts 1, the least recently used
    EXPECT_TRUE(registered(0));
    EXPECT_FALSE(registered(1));
    EXPECT_TRUE(registered(2));
    EXPECT_EQ(counters().evictions, 1u);
    EXPECT_EQ(counters().registered_bytes, 12 * MiB);
}

TEST_F(limits_test, nothing_in_use_is_evicted)
{
    start(8 * MiB);
    const region *first = hold(at(0), 1), *second = hold(at(1), 1);
    EXPECT_EQ(get(at(2), 4 * MiB), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_EQ(get(at(3), 4 * MiB), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_EQ(get(at(3), 4 * MiB, persistent),
              UCS_ERR_EXCEEDS_LIMIT); // a limit is not a temporary failure
    EXPECT_EQ(warnings.size(), 1u);   // for both failures
    EXPECT_EQ(nic.live(), 2u);
    cache->put(first);
    use(at(2), 4 * MiB);
    EXPECT_FALSE(registered(0));
    cache->put(second);
}

TEST_F(limits_test, nothing_is_evicted_in_vain)
{
    start(12 * MiB);
    const region *held = hold(at(0), 1);
    use(at(1), 1);
    gpu.alloc(at(20), 12 * MiB);
    EXPECT_EQ(get(at(20), 12 * MiB), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_TRUE(registered(1));
    cache->put(held);
}

TEST_F(limits_test, full_device_makes_room)
{
    start(SIZE_MAX);
    nic.limit(8 * MiB);
    for (int i = 0; i < 8; ++i) {
        use(at(i), 4 * MiB);
    }
    EXPECT_EQ(nic.max_seen_bytes(), 8 * MiB);
    EXPECT_EQ(counters().evictions, 6u);
    EXPECT_EQ(nic.reg_faults.calls(), 8u + 2u); // one refusal for each GPU
    cache->invalidate(0, SIZE_MAX);
    const region *held = hold(at(0), 1);
    nic.limit(4 * MiB);
    EXPECT_EQ(get(at(1), 4 * MiB), UCS_ERR_NO_MEMORY);
    cache->put(held);
}

// An export of pool memory starts at its chunk's beginning, and all of it is
// mapped.
TEST_F(limits_test, chunks_before_the_memory_count)
{
    start(9 * MiB);
    gpu.chunk = 4 * MiB;
    for (int i = 0; i < 16; ++i) {
        gpu.alloc(B + i * MiB, MiB);
    }
    for (int i : {3, 7, 11, 15}) {
        use(B + i * MiB, 1);
        EXPECT_EQ(counters().mapped_bytes, gpu.mapped(0));
    }
    EXPECT_LE(gpu.max_mapped(0), 9 * MiB);
    EXPECT_EQ(counters().evictions, 2u);
    EXPECT_EQ(counters().registered_bytes, 2 * MiB);
}

// Other processes are asked last, once per request, and only for its pages.
TEST_F(limits_test, others_are_asked_when_nothing_here_is_idle)
{
    unsigned asked      = 0;
    settings.ask_others = [&] {
        EXPECT_EQ(nic.live(), 1u);
        nic.limit(4 * MiB + (++asked == 2 ? 8192 : 0));
        return true;
    };
    start(SIZE_MAX);
    nic.limit(4 * MiB);
    const region *held = hold(at(0), 1);
    EXPECT_EQ(get(at(2), 8192), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(get(at(2), 8192), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(asked, 1u); // not for a known refusal
    EXPECT_EQ(get(at(2), 8192, persistent), UCS_OK);
    EXPECT_EQ(asked, 2u);
    EXPECT_EQ(nic.bytes(), 4 * MiB + 8192);
    EXPECT_TRUE(cache->evict_all_idle());
    EXPECT_EQ(nic.bytes(), 4 * MiB);
    EXPECT_FALSE(cache->evict_all_idle());
    cache->put(held);
    EXPECT_TRUE(cache->evict_all_idle());
    EXPECT_EQ(asked, 2u);
    EXPECT_EQ(nic.live(), 0u);
}

// Another process may be stopped; a request that can fall back rarely waits.
TEST_F(limits_test, others_are_not_asked_all_the_time)
{
    unsigned asked      = 0;
    settings.ask_others = [&] {
        usleep(50'000);
        return ++asked == 0;
    };
    start(SIZE_MAX);
    nic.limit(0);
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(get(at(i % 2), 8192), UCS_ERR_NO_MEMORY);
        cache->invalidate(A / 2, 1); // there may be room now
    }
    EXPECT_LT(asked, 10u);
    asked = 0;
    EXPECT_EQ(get(at(2), 8192, persistent), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(asked, 1u);
}

class fallback_test : public limits_test {
protected:
    // Sets chunks of 4 MiB, and allocates a pool of 40 MiB at B.
    void start(size_t bytes)
    {
        settings.chunk_size = 4 * MiB;
        limits_test::start(bytes);
        gpu.alloc(B, 40 * MiB);
    }
};

// A request across a border would register parts of both chunks again. Without
// room, only its own pages are registered, and nothing is evicted.
TEST_F(fallback_test, what_is_registered_stays)
{
    start(10 * MiB);
    use(B, MiB);
    use(B + 4 * MiB, MiB);
    use(B + 3 * MiB, 2 * MiB);
    EXPECT_EQ(nic.bytes(), 10 * MiB);
    EXPECT_EQ(counters().evictions, 0u);
    use(B, 4 * MiB);
    use(B + 4 * MiB, 4 * MiB);
    EXPECT_EQ(nic.registered, 3u);
    // Its own pages do not fit, either, so something is evicted.
    use(B + 2 * MiB + MiB / 2, 2 * MiB);
    EXPECT_LE(nic.bytes(), 10 * MiB);
    EXPECT_GT(counters().evictions, 0u);
}

} // namespace
