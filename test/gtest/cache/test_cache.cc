// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"

namespace {

constexpr uintptr_t A = uintptr_t{1} << 40;

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
    EXPECT_EQ(get(A + MiB - 1, 2), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(get(A + 2 * MiB - 1, 2), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(get(A - 1, 1), UCS_ERR_NO_ELEM);
    EXPECT_EQ(cache->get(id + 1, A, 1, &out), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(cache->get(UINT_MAX, A, 1, &out), UCS_ERR_INVALID_PARAM);
    cache->put(nullptr);
    EXPECT_EQ(counters().host_lookups, 1u);
}

TEST_F(cache_test, what_cannot_be_exported_is_declined)
{
    gpu.alloc(A, MiB, 0, false);
    EXPECT_EQ(get(A, 1), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(gpu.export_faults.calls(), 0u);
}

TEST_F(cache_test, release_deregisters_idle_at_once)
{
    gpu.alloc(A, MiB);
    use(A, MiB);
    cache->invalidate(A, MiB);
    EXPECT_EQ(nic.live(), 0u);
    EXPECT_EQ(counters().invalidations, 1u);
    EXPECT_EQ(counters().regions, 0u);
    EXPECT_EQ(counters().registered_bytes, 0u);
}

TEST_F(cache_test, last_user_deregisters_released_memory)
{
    gpu.alloc(A, MiB);
    const region *first = hold(A, 1), *second = hold(A + 7, 1);
    EXPECT_EQ(first, second);
    release(A);
    EXPECT_EQ(nic.live(), 1u);
    gpu.alloc(A, MiB);
    const region *renewed = hold(A, 1);
    EXPECT_NE(renewed, first);
    cache->put(first);
    EXPECT_EQ(nic.deregistered, 0u);
    cache->put(second);
    EXPECT_EQ(nic.deregistered, 1u);
    cache->put(renewed);
    EXPECT_EQ(nic.live(), 1u);
}

TEST_F(cache_test, release_during_the_work_is_not_published)
{
    for (auto *when :
         {&gpu.after_describe, &gpu.during_export, &nic.during_reg}) {
        gpu.alloc(A, MiB);
        *when = [this, when] {
            *when = nullptr;
            release(A);
            gpu.alloc(A, MiB);
        };
        use(A, MiB);
        EXPECT_EQ(nic.live(), 1u);
        release(A);
        EXPECT_EQ(nic.live(), 0u);
    }
}

TEST_F(cache_test, invalidation_elsewhere_does_not_disturb)
{
    gpu.alloc(A, MiB);
    nic.during_reg = [this] { cache->invalidate(A + MiB, MiB); };
    use(A, MiB);
    EXPECT_EQ(nic.registered, 1u);
    nic.during_reg = nullptr;
}

TEST_F(cache_test, large_memory_is_registered_in_chunks)
{
    settings.chunk_size = 4 * MiB;
    restart();
    gpu.alloc(A + MiB, 20 * MiB);
    use(A + MiB, 1);
    EXPECT_EQ(nic.bytes(), 3 * MiB); // up to the boundary
    use(A + 5 * MiB, MiB);
    EXPECT_EQ(nic.bytes(), 7 * MiB);
    EXPECT_EQ(nic.live(), 2u);
    use(A + 7 * MiB, 2 * MiB); // spans chunks: one region, around the known
    EXPECT_EQ(nic.bytes(), 11 * MiB);
    EXPECT_EQ(nic.live(), 2u);
    EXPECT_EQ(nic.registered, 3u);
    use(A + 4 * MiB, 8 * MiB);
    EXPECT_EQ(nic.registered, 3u);
}

TEST_F(cache_test, vmm_segments_are_one_region)
{
    gpu.alloc(A, 2 * MiB, 0, true, true);
    gpu.alloc(A + 2 * MiB, 2 * MiB, 0, true, true);
    use(A + MiB, 2 * MiB);
    EXPECT_EQ(nic.live(), 1u);
    EXPECT_EQ(nic.bytes(), 4 * MiB);
    cache->invalidate(A + 2 * MiB, 2 * MiB);
    EXPECT_EQ(nic.live(), 0u);
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

TEST_F(cache_test, nics_in_use_share_an_export)
{
    fakes::nic other(gpu);
    auto second = cache->attach(other);
    gpu.alloc(A, MiB);
    use(A, MiB);
    EXPECT_EQ(other.live(), 0u); // not in use yet
    ASSERT_EQ(cache->get(second, A, 1, &out), UCS_OK);
    cache->put(out);
    EXPECT_EQ(counters().exports, 2u);
    gpu.alloc(A + MiB, MiB);
    use(A + MiB, MiB);
    EXPECT_EQ(counters().exports, 3u);
    EXPECT_EQ(other.live(), 2u);
    other.reg_faults.fail_call(1);
    gpu.alloc(A + 2 * MiB, MiB);
    use(A + 2 * MiB, MiB); // in spite of the other
    EXPECT_EQ(other.live(), 2u);
    cache->detach(second);
    EXPECT_EQ(other.live(), 0u);
    EXPECT_EQ(nic.live(), 3u);
}

} // namespace
