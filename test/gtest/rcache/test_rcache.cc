// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <algorithm>
#include <ctime>

namespace {

TEST_F(cache_test, refuses_bad_ranges)
{
    gpu.alloc(A, MiB);
    gpu.alloc(A + MiB, MiB);
    EXPECT_EQ(get(A, 0), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(get(A, SIZE_MAX), UCS_ERR_INVALID_PARAM);
    // No span can contain the address space's last page.
    gpu.alloc(UINTPTR_MAX - 8191, 8191);
    EXPECT_EQ(get(UINTPTR_MAX - 4095, 100), UCS_ERR_INVALID_PARAM);
    use(UINTPTR_MAX - 8191, 4096);
    release(UINTPTR_MAX - 8191);
    EXPECT_EQ(get(A + MiB - 1, 2), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(get(A + 2 * MiB - 1, 2), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(get(A - 1, 1), UCS_ERR_NO_ELEM);
    EXPECT_EQ(get(A, 1, normal, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(get(A, 1, normal, UINT_MAX), UCS_ERR_INVALID_PARAM);
    cache->put(nullptr);
}

// UCX announces the first byte only if it cannot ask for the size.
TEST_F(cache_test, a_release_meanwhile_may_name_a_part_that_was_not_requested)
{
    gpu.alloc(A, 2 * MiB);
    gpu.after_describe = [&] {
        cache->release(A, 1);
        gpu.free(A);
        gpu.alloc(A, 2 * MiB);
    };
    use(A + MiB, 1);
    cache->check_identity();
    use(A + MiB, 1);
    EXPECT_EQ(counters().registrations, 1u);
    EXPECT_EQ(counters().identity_misses, 0u);
}

TEST_F(cache_test, large_memory_is_registered_in_chunks)
{
    settings.chunk_size = 4 * MiB;
    restart();
    gpu.alloc(A + MiB, 20 * MiB);
    use(A + MiB, 1);
    EXPECT_EQ(nic.bytes(), 3 * MiB); // up to the chunk's end
    use(A + 5 * MiB, MiB);
    EXPECT_EQ(nic.bytes(), 7 * MiB);
    EXPECT_EQ(nic.live(), 2u);
    use(A + 7 * MiB, 2 * MiB); // across a border: half of each chunk
    EXPECT_EQ(nic.bytes(), 11 * MiB);
    EXPECT_EQ(nic.live(), 3u);
    EXPECT_EQ(counters().hits, 0u);
    for (uintptr_t at : {5 * MiB, 6 * MiB, 8 * MiB, 9 * MiB}) {
        use(A + at, MiB);
    }
    EXPECT_EQ(nic.registered, 3u);
    // Longer than a chunk: the new region replaces the two that it covers.
    use(A + 4 * MiB, 8 * MiB);
    EXPECT_EQ(nic.live(), 2u);
    EXPECT_EQ(nic.bytes(), 11 * MiB);
    use(A + 2 * MiB, 14 * MiB);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(nic.bytes(), 15 * MiB);
    EXPECT_EQ(nic.registered, 5u);
}

// Returns the CPU time, in ns, of misses in a pool with a region in each part.
class time_test : public cache_test {
protected:
    double time_of_misses(uintptr_t base, size_t size)
    {
        settings.chunk_size = 2 * MiB;
        restart();
        for (size_t at = 0; at < size; at += 16 * GiB) {
            use(base + at, 1);
        }
        timespec before, after;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        for (int i = 1; i < 200; ++i) {
            use(base + i * 2 * MiB, 1);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        return (after.tv_sec - before.tv_sec) * 1e9 +
               static_cast<double>(after.tv_nsec - before.tv_nsec);
    }
};

// The pool is 64 times as large, misses at most 8 times as slow: no full scan.
TEST_F(time_test, misses_in_a_large_pool_are_no_slower)
{
    gpu.alloc(A, 16 * GiB);
    gpu.alloc(2 * A, 1024 * GiB);
    double small = 1e18, large = 1e18;
    for (int i = 0; i < 5; ++i) {
        small = std::min(small, time_of_misses(A, 16 * GiB));
        large = std::min(large, time_of_misses(2 * A, 1024 * GiB));
    }
    EXPECT_LT(large, 8 * small);
}

// Adjacent VMM segments are registered together.
class vmm_test : public cache_test {
protected:
    vmm_test() { grow(5); }
    static uintptr_t at(int i) { return A + i * 2 * MiB; }
    void grow(int count)
    {
        for (; count > 0; --count, ++mapped) {
            cache->invalidate(at(mapped), 2 * MiB);
            map(at(mapped), 2 * MiB);
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

// Segments that are registered stay so while the memory grows.
TEST_F(vmm_test, memory_that_grows)
{
    for (bool checks : {false, true}) {
        settings.check_identity = checks;
        restart();
        uint64_t before = nic.registered;
        use(at(0), 4 * MiB);
        grow(3);
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

// A segment is replaced without an event. The other segments are unchanged.
TEST_F(vmm_test, a_replaced_segment_is_a_miss)
{
    cache->check_identity();
    use(at(0), 6 * MiB);
    gpu.free(at(2));
    map(at(2), 2 * MiB);
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
    map(at(2), 2 * MiB);
    grow(1);
    use(at(2), 8 * MiB);
    EXPECT_EQ(counters().identity_misses, 1u);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(nic.bytes(), 12 * MiB);
}

} // namespace
