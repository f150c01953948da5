// SPDX-License-Identifier: BSD-3-Clause
#include "prefetch.h"
#include <atomic>
#include <functional>
#include <future>
#include <thread>

// New memory is registered before its first use, if earlier memory of its size
// was used. The tests count; none has a limit of time.
namespace {

TEST_F(prefetch_test, memory_is_registered_before_its_use_after_two_were_used)
{
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(allocate(at(i))); // none was used
    }
    EXPECT_FALSE(cache->flush()); // no thread ever ran
    release_all();
    teach(1);
    EXPECT_FALSE(allocate(A));
    EXPECT_TRUE(first_use(A));

    EXPECT_TRUE(allocate(B));
    EXPECT_EQ(nic.live(), 2u);
    EXPECT_FALSE(first_use(B, 4 * MiB));
    EXPECT_EQ(ahead(), 1u);
    EXPECT_FALSE(allocate(C, 32 * MiB)); // of another size
    cache->release(0, SIZE_MAX);
    EXPECT_EQ(in_vain(), 0u);
}

TEST_F(prefetch_test, not_if_it_is_off_or_room_is_limited)
{
    settings.prefetch = false;
    restart();
    teach(10);
    settings.prefetch  = true;
    settings.max_bytes = [](int) { return GiB; }; // a small BAR1
    restart();
    teach(10);
    settings.max_bytes   = [](int) { return SIZE_MAX; };
    settings.max_regions = 100;
    restart();
    teach(10);
    settings.max_regions    = SIZE_MAX;
    settings.check_identity = true;
    restart();
    teach(10);
    EXPECT_EQ(ahead(), 0u);
}

TEST_F(prefetch_test, not_for_segments_and_pools)
{
    teach(60);
    for (const bool vmm : {true, false}) {
        gpu.chunk = vmm ? 0 : 32 * MiB;
        gpu.alloc(A, 4 * MiB, 0, true, vmm);
        const uint64_t looked = gpu.describe_faults.calls();
        EXPECT_TRUE(cache->allocate(A, 4 * MiB));
        while (gpu.describe_faults.calls() == looked) {
            std::this_thread::yield();
        }
        cache->flush();
        EXPECT_FALSE(has_entry(A));
        release_surely(A);
    }
    gpu.chunk = 0;
}

// The next use registers. If the NIC lacks room, nothing more is registered
// ahead, but uses need not be seen yet.

TEST_F(prefetch_test, a_failure_is_not_remembered)
{
    for (const auto error : {UCS_ERR_IO_ERROR, UCS_ERR_NO_MEMORY}) {
        teach(30);
        nic.reg_faults.fail_call(1, error);
        EXPECT_TRUE(allocate(A));
        EXPECT_TRUE(first_use(A));
        nic.reg_faults.clear();
        EXPECT_EQ(allocate(B), error == UCS_ERR_IO_ERROR);
        release_all();
    }
    EXPECT_FALSE(cache->checks_each_use());
}

TEST_F(prefetch_test, a_use_waits_for_the_rest)
{
    std::promise<void> until;
    begin(until);
    const counters before;
    std::thread user([&] { use(A, 4 * MiB); });
    until.set_value();
    user.join();
    EXPECT_EQ(counters().registrations, before.registrations + 1);
}

// A program may release memory as soon as it has it. The exporter still
// describes the memory, as a driver may that is just releasing it.

TEST_F(prefetch_test, nothing_is_registered_after_a_release)
{
    for (int i = 0; i < 1000; ++i) {
        teach(50);
        gpu.alloc(A, 4 * MiB);
        EXPECT_TRUE(cache->allocate(A, 4 * MiB));
        for (std::atomic<int> wait{i % 500}; wait > 0; --wait) {
        }
        cache->release(A, 4 * MiB);
        cache->flush();
        EXPECT_EQ(nic.live(), 0u);
        gpu.free(A);
    }
}

// Then it was not registered in vain, released meanwhile or not.
TEST_F(prefetch_test, a_use_may_overtake_the_thread)
{
    teach();
    for (const bool is_released : {true, false}) {
        std::promise<void> begun, until;
        std::atomic<bool> first{true};
        gpu.after_describe = [&] {
            if (first.exchange(false)) {
                begun.set_value();
                until.get_future().wait();
            }
        };
        gpu.alloc(A, 4 * MiB);
        ASSERT_TRUE(cache->allocate(A, 4 * MiB));
        begun.get_future().wait();
        EXPECT_TRUE(first_use(A));
        if (is_released) {
            release_surely(A);
        }
        until.set_value();
        cache->leave_driver(); // the thread is done
        if (!is_released) {
            release_surely(A);
        }
        EXPECT_TRUE(allocate(B));
        EXPECT_FALSE(first_use(B));
        release_surely(B);
        gpu.after_describe = nullptr;
    }
    EXPECT_EQ(ahead(), 2u);
    EXPECT_EQ(in_vain(), 0u);
}

// The driver must not be called in a context that is being destroyed, nor while
// the process ends. A NIC is not used after it was detached.

// A NIC or the driver may hang, or wait for this thread. All waits together
// have one limit.

// An operation that needs the room does not wait for the thread. The result is
// dropped: room that was given away is not taken again.

TEST_F(prefetch_test, room_waits_for_no_registration_ahead)
{
    settings.deferred_size = 0;
    restart();
    std::promise<void> until;
    begin(until);
    gpu.alloc(B, 8 * MiB);
    use(B, 1);
    release_surely(B);
    EXPECT_EQ(nic.live(), 1u); // the thread is busy
    EXPECT_TRUE(cache->evict_all_idle());
    EXPECT_EQ(nic.live(), 0u);
    expect_dropped(until);
}

// The NIC has room for one registration, which the thread makes, or has made in
// vain. An operation that is refused gets that room.

TEST_F(prefetch_test, operations_come_first_where_room_is_scarce)
{
    for (const bool is_busy : {true, false}) {
        restart();
        teach();
        std::promise<void> until;
        std::atomic<bool> begun{!is_busy};
        if (is_busy) {
            nic.after_reg = [&] {
                begun = true;
                until.get_future().wait();
            };
        }
        gpu.alloc(A, 4 * MiB);
        ASSERT_TRUE(cache->allocate(A, 4 * MiB));
        while (!begun || !has_entry(A)) {
            std::this_thread::yield();
        }
        nic.limit(4 * MiB);
        nic.after_refusal = [&] { until.set_value(); };
        gpu.alloc(B, 4 * MiB);
        use(B, 4 * MiB);
        EXPECT_FALSE(cache->checks_each_use());
        nic.limit(SIZE_MAX);
        gpu.alloc(C, 4 * MiB);
        EXPECT_FALSE(cache->allocate(C, 4 * MiB));
        release_all();
    }
}

TEST_F(prefetch_test, the_oldest_memory_comes_first)
{
    teach(20);
    std::promise<void> until;
    begin(until);
    std::vector<uintptr_t> order;
    gpu.each_call = [&](fakes::call what, uintptr_t address, size_t) {
        if (what == fakes::call::export_range) {
            order.push_back(address);
            if (address == B) {
                gpu.alloc(C, 4 * MiB);
                cache->allocate(C, 4 * MiB);
            }
        }
    };
    for (const uintptr_t base : {B, B + 4 * MiB, B + 8 * MiB}) {
        gpu.alloc(base, 4 * MiB);
        EXPECT_TRUE(cache->allocate(base, 4 * MiB));
    }
    until.set_value();
    while (!has_entry(C)) {
        std::this_thread::yield();
    }
    cache->flush();
    EXPECT_EQ(order, (std::vector{B, B + 4 * MiB, B + 8 * MiB, C}));
    gpu.each_call = nullptr;
    release_all();
    gpu.free(B + 4 * MiB);
    gpu.free(B + 8 * MiB);
}

// Then it is not known whether the memory would have been used.
TEST_F(prefetch_test, other_ends_of_a_registration_teach_nothing)
{
    const std::function<void()> ends[] = {
        [&] { release_all(); },
        [&] {
            cache->drop(nic.name());
            use(A, 1);
            release_surely(A);
        },
    };
    for (const auto &end : ends) {
        for (int i = 0; i < 3; ++i) {
            teach();
            EXPECT_TRUE(allocate(A));
            end();
        }
    }
    EXPECT_EQ(ahead(), 16u);
    EXPECT_EQ(in_vain(), 0u);
}

// An allocation that finds no memory tries once more after a deregistration.
TEST_F(prefetch_test, memory_is_asked_for_again_only_if_some_was_deregistered)
{
    cache->flush();
    for (int i = 0; i < 3; ++i) {
        std::promise<void> until;
        begin(until);
        release_surely(A);
        until.set_value();
        EXPECT_TRUE(cache->flush());
        EXPECT_FALSE(cache->flush());
        teach(50);
    }
}

} // namespace
