// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <algorithm>
#include <ctime>

namespace {

TEST_F(cache_test, miss_registers_whole_allocation_and_hit_does_not)
{
    gpu.alloc(A, 8 * MiB);
    use(A + 5, 100);
    use(A + 7 * MiB, MiB);
    EXPECT_EQ(nic.registered, 1u);
    EXPECT_EQ(counters().hits, 1u);
    EXPECT_EQ(counters().misses, 1u);
    EXPECT_EQ(counters().exports, 1u);
    EXPECT_EQ(counters().registered_bytes, 8 * MiB);
}

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
    EXPECT_EQ(cache->get(id + 1, A, 1, &out), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(cache->get(UINT_MAX, A, 1, &out), UCS_ERR_INVALID_PARAM);
    cache->put(nullptr);
}

TEST_F(cache_test, a_region_serves_its_bytes_only)
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
TEST_F(cache_test, what_was_released_meanwhile_is_described_again)
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

// At most twice the pool is registered, however requests cross the borders.
TEST_F(cache_test, borders_cost_no_registration_of_what_is_inside)
{
    settings.chunk_size = 4 * MiB;
    restart();
    gpu.alloc(A, 64 * MiB);
    for (uintptr_t at = 0; at + MiB <= 64 * MiB; at += MiB / 4) {
        use(A + at, MiB);
    }
    EXPECT_EQ(nic.registered, 16u + 15u);
    EXPECT_EQ(nic.deregistered, 0u);
    EXPECT_LE(nic.bytes(), 2 * 64 * MiB);
    // An event in one of two overlapping regions leaves the other one usable.
    cache->invalidate(A + MiB, 1);
    EXPECT_EQ(nic.live(), 30u);
    use(A + 3 * MiB, 2 * MiB);
    EXPECT_EQ(nic.registered, 31u);
    use(A, MiB);
    EXPECT_EQ(nic.registered, 32u);
}

TEST_F(cache_test, missed_event_is_a_miss_when_identity_is_checked)
{
    cache->check_identity();
    gpu.alloc(A, MiB);
    use(A, MiB);
    gpu.free(A); // no event
    EXPECT_EQ(get(A, MiB), UCS_ERR_NO_ELEM);
    EXPECT_EQ(nic.live(), 0u);
    gpu.alloc(A, 2 * MiB);
    use(A, MiB);
    gpu.free(A);
    gpu.alloc(A, 2 * MiB);
    use(A, MiB);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(counters().identity_misses, 2u);
}

// Small allocations share pages, so the NIC also reaches bytes of their
// neighbours. Each region serves only its own bytes.
TEST_F(cache_test, allocations_that_share_a_page)
{
    for (int i = 0; i < 20; ++i) {
        gpu.alloc(A + i * 512, 512);
    }
    for (int i = 0; i < 20; ++i) {
        use(A + i * 512, 512);
    }
    EXPECT_EQ(nic.live(), 20u);
    EXPECT_EQ(get(A + 511, 2), UCS_ERR_INVALID_PARAM);
    release(A + 5 * 512);
    EXPECT_EQ(nic.live(), 19u);
    EXPECT_EQ(get(A + 5 * 512, 1), UCS_ERR_NO_ELEM);
    gpu.alloc(A + 5 * 512, 512);
    use(A + 5 * 512, 512);
    EXPECT_EQ(nic.registered, 21u);
}

TEST_F(cache_test, a_hit_makes_no_call)
{
    gpu.alloc(A, MiB);
    use(A, MiB);
    uint64_t calls = gpu.describe_faults.calls();
    use(A, MiB);
    EXPECT_EQ(gpu.identity_calls, 0u);
    EXPECT_EQ(gpu.describe_faults.calls(), calls);
    cache->check_identity();
    use(A, MiB);
    EXPECT_EQ(gpu.identity_calls, 1u);
    EXPECT_EQ(counters().identity_checks, 1u);
    EXPECT_EQ(counters().hits, 2u);
}

// Without identity checks, a miss beside the region reveals a missed event.
TEST_F(cache_test, strangers_leave_when_something_else_is_found)
{
    gpu.alloc(A, MiB);
    use(A, MiB);
    gpu.free(A);
    gpu.alloc(A, 2 * MiB);
    use(A + MiB, MiB);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(counters().identity_misses, 1u);
    use(A, MiB);
}

// Exported pages may be larger than the host's pages.
TEST(granularity_test, exports_are_aligned)
{
    fakes::gpu gpu(65536);
    fakes::nic nic(gpu);
    ucx_ib_dmabuf::rcache cache(gpu, {});
    auto id = cache.attach(nic);
    gpu.alloc(A + 512, 512);
    const region *got = nullptr;
    ASSERT_EQ(cache.get(id, A + 600, 1, &got), UCS_OK);
    EXPECT_EQ(got->address, A);
    EXPECT_EQ(got->length, 65536u);
    cache.put(got);
    EXPECT_EQ(fakes::complaints, 0u);
}

// Returns the CPU time, in ns, of misses in a pool with a region in each part.
double time_of_misses(fakes::gpu &gpu, uintptr_t base, size_t size)
{
    constexpr size_t part = size_t{16} << 30;
    fakes::nic nic(gpu);
    ucx_ib_dmabuf::rcache_settings settings;
    settings.chunk_size = 2 * MiB;
    ucx_ib_dmabuf::rcache cache(gpu, settings);
    auto id  = cache.attach(nic);
    auto use = [&](uintptr_t at) {
        const region *got = nullptr;
        EXPECT_EQ(cache.get(id, at, 1, &got), UCS_OK);
        cache.put(got);
    };
    for (size_t at = 0; at < size; at += part) {
        use(base + at);
    }
    timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int i = 1; i < 200; ++i) {
        use(base + i * 2 * MiB);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    cache.detach(id);
    return (after.tv_sec - before.tv_sec) * 1e9 +
           static_cast<double>(after.tv_nsec - before.tv_nsec);
}

// The pool is 64 times as large, misses at most 8 times as slow: no full scan.
TEST_F(cache_test, misses_in_a_large_pool_are_no_slower)
{
    gpu.alloc(A, size_t{16} << 30);
    gpu.alloc(2 * A, size_t{1} << 40);
    double small = 1e18, large = 1e18;
    for (int i = 0; i < 5; ++i) {
        small = std::min(small, time_of_misses(gpu, A, size_t{16} << 30));
        large = std::min(large, time_of_misses(gpu, 2 * A, size_t{1} << 40));
    }
    EXPECT_LT(large, 8 * small);
}

} // namespace
