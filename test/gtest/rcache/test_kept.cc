// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <barrier>
#include <malloc.h>
#include <thread>
#include <utility>

// Users that cache regions themselves, as UCP does since 1.16.

namespace {

using ranges = std::vector<std::pair<uintptr_t, size_t>>;

class kept_test : public cache_test {
public:
    kept_test()
    {
        nic.asked_back = [this](uintptr_t address, size_t length) {
            asked.emplace_back(address, length);
        };
        restart();
    }
    ~kept_test() override { nic.asked_back = nullptr; }

protected:
    // Puts the region when the cache asks for it, as UCP's cache does.
    void drop_from_ucp_cache(const region *kept)
    {
        nic.asked_back = [this, kept](uintptr_t address,
                                      size_t length) mutable {
            asked.emplace_back(address, length);
            cache->put(std::exchange(kept, nullptr));
        };
    }

    ranges asked;
};

} // namespace

TEST_F(kept_test, released_memory_is_deregistered_although_it_is_kept)
{
    gpu.alloc(A, MiB);
    const region *first = hold(A, MiB), *second = hold(A, MiB);
    EXPECT_FALSE(cache->is_revoked(first));
    release_surely(A);
    EXPECT_EQ(nic.live(), 0u);
    EXPECT_EQ(counters().registered_bytes, 0u);
    EXPECT_EQ(counters().mapped_bytes, 0u);
    EXPECT_TRUE(cache->is_revoked(first));
    EXPECT_EQ(asked, (ranges{{A, MiB}}));

    // New memory at the address gets another region, also after the last put.
    gpu.alloc(A, MiB);
    const region *renewed = hold(A, MiB);
    EXPECT_NE(renewed, first);
    cache->put(first);
    EXPECT_TRUE(cache->is_revoked(second));
    cache->put(second);
    EXPECT_FALSE(cache->is_revoked(renewed));
    EXPECT_EQ(nic.live(), 1u);
    cache->put(renewed);
}

TEST_F(kept_test, a_revoked_region_ends_with_its_last_user)
{
    size_t before = 0;
    for (int i = 0; i < 9000; ++i) {
        gpu.alloc(A, MiB);
        const region *kept = hold(A, MiB);
        release_surely(A);
        EXPECT_EQ(nic.live(), 0u);
        cache->put(kept);
        if (i == 5000) { // the fakes need no more memory from here on
            before = mallinfo2().uordblks;
        }
    }
    EXPECT_LT(mallinfo2().uordblks, before + 4000 * 64);
}

// Other users may still use the rest of the region, until all of it is
// released.
TEST_F(kept_test, what_is_released_piece_by_piece_is_deregistered_with_the_last)
{
    alloc(3, true);
    const region *kept = hold(at(0), 12 * MiB);
    release_surely(at(0));
    EXPECT_EQ(asked, (ranges{{at(0), 12 * MiB}}));
    map(at(0), 4 * MiB); // is not the region's memory
    release_surely(at(2));
    EXPECT_FALSE(cache->is_revoked(kept));
    EXPECT_EQ(nic.live(), 1u);
    release_surely(at(1));
    EXPECT_TRUE(cache->is_revoked(kept));
    EXPECT_EQ(nic.live(), 0u);
    cache->put(kept);
}

// The region's keys would reach the old memory. Users of an unchanged part keep
// the region, until the last one puts it.
TEST_F(kept_test, a_replaced_part_ends_what_users_asked_for_it)
{
    alloc(4, true);
    const auto replace = [this] {
        release_surely(at(2));
        map(at(2), 4 * MiB);
    };
    for (const bool by_event : {true, false}) {
        const region *all = hold(at(0), 16 * MiB);
        replace();
        EXPECT_FALSE(cache->is_revoked(all));
        if (by_event) {
            cache->invalidate(at(2), 4 * MiB);
        } else {
            replace();
        }
        EXPECT_TRUE(cache->is_revoked(all));
        EXPECT_EQ(nic.live(), 0u);
        const region *first = hold(at(0), 8 * MiB);
        cache->put(hold(at(0), 16 * MiB), at(0), 16 * MiB); // this use is over
        EXPECT_GE(first->length, 16 * MiB);
        replace();
        cache->invalidate(at(2), 4 * MiB);
        EXPECT_FALSE(cache->is_revoked(first));
        EXPECT_EQ(nic.live(), 1u);
        cache->put(all);
        cache->put(first);
        EXPECT_EQ(nic.live(), 0u);
    }
}

TEST_F(kept_test, checks_that_begin_later_ask_for_all_that_is_kept)
{
    EXPECT_FALSE(cache->checks_each_use());
    gpu.alloc(A, MiB);
    gpu.alloc(A + 4 * MiB, MiB);
    use(A, MiB);
    drop_from_ucp_cache(hold(A + 4 * MiB, MiB));
    cache->check_identity();
    cache->check_identity();
    EXPECT_TRUE(cache->checks_each_use());
    EXPECT_EQ(asked, (ranges{{A, 5 * MiB}}));
}

TEST_F(kept_test, each_use_is_needed_for_checks_and_where_regions_are_limited)
{
    for (const bool limited : {false, true}) {
        settings.max_regions    = limited ? 4 : SIZE_MAX;
        settings.check_identity = !limited;
        restart();
        EXPECT_TRUE(cache->checks_each_use());
    }
}

// The NIC has less room than was known before.
TEST_F(kept_test, what_is_kept_makes_room_when_a_nic_has_none)
{
    nic.limit(MiB);
    gpu.alloc(A, MiB);
    gpu.alloc(A + 4 * MiB, MiB);
    drop_from_ucp_cache(hold(A, MiB));
    use(A + 4 * MiB, MiB);
    EXPECT_TRUE(cache->checks_each_use());
    EXPECT_EQ(counters().evictions, 1u);
}

// UCP has one cache for the process, so it must also drop regions of GPUs
// without a limit.
TEST_F(kept_test, a_limit_of_one_gpu_asks_back_what_is_kept_of_others)
{
    settings.max_bytes = [](int of) { return of == 1 ? 4 * MiB : SIZE_MAX; };
    restart();
    gpu.alloc(A, MiB, 0);
    gpu.alloc(B, MiB, 1);
    drop_from_ucp_cache(hold(A, MiB));
    EXPECT_TRUE(asked.empty());
    use(B, MiB);
    EXPECT_TRUE(cache->checks_each_use());
    ASSERT_FALSE(asked.empty());
    EXPECT_EQ(asked[0], std::pair(A, MiB));
}

// Each region is deregistered once, whichever user is the last.
TEST_F(kept_test, users_and_a_release_at_once)
{
    constexpr int rounds = 2000;
    const region *kept[2];
    std::barrier both(3);
    auto user = [&](int mine) {
        for (int i = 0; i < rounds; ++i) {
            both.arrive_and_wait();
            cache->put(kept[mine]);
            both.arrive_and_wait();
        }
    };
    std::thread users[] = {std::thread(user, 0), std::thread(user, 1)};
    nic.asked_back      = [](uintptr_t, size_t) {};
    for (int i = 0; i < rounds; ++i) {
        gpu.alloc(A, MiB);
        kept[0] = hold(A, MiB);
        kept[1] = hold(A, MiB);
        both.arrive_and_wait();
        release_surely(A);
        EXPECT_EQ(nic.live(), 0u);
        both.arrive_and_wait();
    }
    for (std::thread &each : users) {
        each.join();
    }
    EXPECT_EQ(nic.deregistered, uint64_t{rounds});
}

// A single call covers all of them, and any memory in between.
TEST_F(kept_test, all_that_a_nic_drops_is_asked_back)
{
    for (uintptr_t base : {A + 3 * MiB, A, A + MiB, B}) {
        gpu.alloc(base, MiB);
        cache->put(hold(base, MiB));
    }
    cache->drop(nic.name());
    EXPECT_EQ(asked, (ranges{{A, B + MiB - A}}));
}

// The ranges for which UCP's cache has entries.
class extent_test : public cache_test {
protected:
    ucx_ib_dmabuf::address_range extent(uintptr_t address, size_t length)
    {
        const region *used = hold(address, length);
        const auto result  = ucx_ib_dmabuf::rcache::extent(
             used, ucx_ib_dmabuf::make_range(address, length));
        cache->put(used, address, length);
        return result;
    }
    void expect_as_requested(uintptr_t address, size_t length)
    {
        EXPECT_EQ(extent(address, length),
                  (ucx_ib_dmabuf::make_range(address, length)));
    }
};

// It may grow, and parts may be released. Messages may cross any border.
TEST_F(extent_test, a_request_in_vmm_memory_is_one)
{
    map(A, 2 * MiB);
    expect_as_requested(A, MiB);
    map(A + 2 * MiB, 2 * MiB);
    expect_as_requested(A + MiB, 2 * MiB);
    expect_as_requested(A, MiB);
}

TEST_F(extent_test, a_request_in_a_chunk_is_one)
{
    settings.chunk_size = 4 * MiB;
    restart();
    gpu.alloc(A, 16 * MiB);
    expect_as_requested(A + MiB, MiB);
    expect_as_requested(A + 3 * MiB, 2 * MiB);
}

// The NIC refuses the allocation as a whole.
TEST_F(extent_test, a_request_in_registered_pages_is_one)
{
    gpu.alloc(A, 4 * MiB);
    nic.reg_faults.fail_call(1);
    expect_as_requested(A + MiB + 10, 10);
}
