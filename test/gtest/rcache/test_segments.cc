// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"

// Adjacent VMM segments are registered together.
namespace {

class vmm_test : public cache_test {
protected:
    vmm_test() { map(5); }
    static uintptr_t at(int i) { return A + i * 2 * MiB; }
    void map(int count)
    {
        for (; count > 0; --count, ++mapped) {
            cache->invalidate(at(mapped), 2 * MiB);
            gpu.alloc(at(mapped), 2 * MiB, 0, true, true);
        }
    }
    int mapped = 0;
};

// The region includes all adjacent segments.
TEST_F(vmm_test, segments_that_touch_are_one_region)
{
    use(at(1) + MiB, 2 * MiB);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(nic.bytes(), 10 * MiB);
    use(at(0), 10 * MiB);
    EXPECT_EQ(nic.registered, 1u);
    release(at(1));
    EXPECT_EQ(nic.live(), 0u);
    use(at(0), MiB);
    EXPECT_EQ(nic.bytes(), 2 * MiB);
    use(at(2), 4 * MiB);
    EXPECT_EQ(nic.bytes(), 8 * MiB);
}

// Allocations beside segments are not joined, either.
TEST_F(vmm_test, segments_of_another_gpu_are_not_joined)
{
    gpu.alloc(at(5), 2 * MiB, 1, true, true);
    use(at(4), MiB);
    EXPECT_EQ(nic.bytes(), 10 * MiB);
    EXPECT_EQ(get(at(4) + MiB, 2 * MiB), UCS_ERR_INVALID_PARAM);
    use(at(5), MiB);
    EXPECT_EQ(nic.live(), 2u);
    gpu.alloc(at(6), 2 * MiB, 1);
    gpu.alloc(at(7), 2 * MiB, 1, true, true);
    for (int beside : {5, 6}) {
        EXPECT_EQ(get(at(beside) + MiB, 2 * MiB), UCS_ERR_INVALID_PARAM);
    }
}

// A large reservation is registered one chunk at a time.
TEST_F(vmm_test, runs_end_at_windows)
{
    settings.chunk_size = 4 * MiB;
    restart();
    use(at(0), MiB);
    EXPECT_EQ(nic.bytes(), 4 * MiB);
    use(at(1), 4 * MiB);
    EXPECT_EQ(nic.bytes(), 8 * MiB);
    use(at(2), MiB);
    EXPECT_EQ(nic.registered, 2u); // a hit in the second region
    use(at(3), MiB);
    EXPECT_EQ(nic.registered, 3u); // the rest of that chunk
    EXPECT_EQ(nic.bytes(), 10 * MiB);
}

// Segments that are registered stay so while the memory grows.
TEST_F(vmm_test, memory_that_grows)
{
    for (bool checks : {false, true}) {
        settings.check_identity = checks;
        restart();
        uint64_t before = nic.registered;
        use(at(0), 4 * MiB);
        map(3);
        use(at(mapped - 1), MiB);
        EXPECT_EQ(nic.registered, before + 2);
        // A request across the border of two regions.
        use(at(mapped - 4), 4 * MiB);
        EXPECT_EQ(nic.registered, before + 3);
        EXPECT_EQ(nic.live(), 3u);
        for (int i = 0; i < mapped; ++i) {
            use(at(i), 2 * MiB);
        }
        EXPECT_EQ(nic.registered, before + 3);
        EXPECT_EQ(counters().identity_misses, 0u);
        cache->invalidate(0, SIZE_MAX);
    }
}

// A new segment does not disturb a registration beside it.
TEST_F(vmm_test, memory_that_grows_meanwhile)
{
    nic.during_reg = [this] { map(1); };
    use(at(0), MiB);
    EXPECT_EQ(nic.registered, 1u);
    EXPECT_EQ(nic.bytes(), 10 * MiB);
}

// A segment is replaced without an event. The other segments are unchanged.
TEST_F(vmm_test, a_replaced_segment_is_a_miss)
{
    cache->check_identity();
    use(at(0), 6 * MiB);
    gpu.free(at(2));
    gpu.alloc(at(2), 2 * MiB, 0, true, true);
    use(at(0), 1);
    EXPECT_EQ(counters().identity_misses, 0u);
    use(at(1), 4 * MiB);
    EXPECT_EQ(counters().identity_misses, 1u);
    EXPECT_EQ(nic.registered, 2u);
    EXPECT_EQ(nic.live(), 1u);
}

// Identity is not checked; a miss that touches the segment reveals the change.
TEST_F(vmm_test, a_replaced_segment_is_seen_by_a_miss)
{
    use(at(0), MiB);
    gpu.free(at(2));
    gpu.alloc(at(2), 2 * MiB, 0, true, true);
    map(1);
    use(at(2), 8 * MiB);
    EXPECT_EQ(counters().identity_misses, 1u);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(nic.bytes(), 12 * MiB);
}

} // namespace
