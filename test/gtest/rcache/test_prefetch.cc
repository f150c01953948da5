// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <chrono>
#include <common/elsewhere.h>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>

// New memory is registered before its first use, if earlier memory of its kind
// was used. The tests count; none has a limit of time.
namespace {

uint64_t ahead()
{
    return fakes::counters::of("prefetches");
}
uint64_t in_vain()
{
    return fakes::counters::of("prefetches_unused");
}

class prefetch_test : public cache_test {
protected:
    prefetch_test()
    {
        settings.prefetch = true;
        restart();
    }
    // Allocates, and waits until all that is expected is registered.
    bool allocate(uintptr_t base, size_t size = 4 * MiB, int device = 0)
    {
        gpu.alloc(base, size, device);
        const bool expected = cache->allocate(base, size);
        while (expected && !is_registered(base)) {
            std::this_thread::yield();
        }
        cache->flush(); // until it is published
        return expected;
    }
    bool is_registered(uintptr_t base)
    {
        bool found = false;
        for (const fakes::nic &each : nics) {
            each.each([&](const fakes::registration &one) {
                found |= one.address <= base && base < one.address + one.length;
            });
        }
        return found;
    }
    // Allocates, uses and frees, so many times.
    void teach(int uses = 2, size_t size = 4 * MiB)
    {
        for (int i = 0; i < uses; ++i) {
            allocate(C, size);
            use(C, size);
            release_surely(C);
        }
    }
    // The next registration waits until the promise is kept.
    std::future<void> block(std::promise<void> &until)
    {
        auto begun     = std::make_shared<std::promise<void>>();
        nic.during_reg = [begun, &until] {
            begun->set_value();
            until.get_future().wait();
        };
        return begun->get_future();
    }
    // Begins to register A, up to a call of the NIC.
    void begin(std::promise<void> &until)
    {
        teach();
        auto begun = block(until);
        gpu.alloc(A, 4 * MiB);
        EXPECT_TRUE(cache->allocate(A, 4 * MiB));
        begun.wait();
    }
};

TEST_F(prefetch_test, what_was_used_twice_is_registered_before_its_use)
{
    teach(1);
    EXPECT_FALSE(allocate(A));
    use(A, 1);
    EXPECT_EQ(ahead(), 0u);

    EXPECT_TRUE(allocate(B));
    EXPECT_EQ(nic.live(), 2u);
    const counters before;
    use(B, 4 * MiB);
    EXPECT_EQ(counters().hits, before.hits + 1);
    EXPECT_EQ(counters().registrations, before.registrations);
    EXPECT_EQ(ahead(), 1u);
    EXPECT_FALSE(allocate(C, 32 * MiB)); // of another kind
    release_surely(A);
    release_surely(B);
    release_surely(C);
    EXPECT_EQ(in_vain(), 0u);
}

TEST_F(prefetch_test, without_uses_there_is_no_thread)
{
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(allocate(at(i)));
    }
    EXPECT_FALSE(cache->flush()); // no thread ever ran
    cache->release(0, SIZE_MAX);
}

TEST_F(prefetch_test, off_by_a_setting_and_without_room)
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
    EXPECT_EQ(ahead(), 0u);
}

TEST_F(prefetch_test, memory_of_pools_and_segments_is_not)
{
    for (int i = 0; i < 4; ++i) {
        gpu.alloc(at(i), 4 * MiB, 0, true, true);
        EXPECT_FALSE(cache->allocate(at(i), 4 * MiB));
        use(at(i), 1);
    }
    cache->release(A, GiB);
}

// The next use registers. If the NIC lacks room, nothing more is registered
// ahead, but uses need not be seen yet.
TEST_F(prefetch_test, a_failure_is_not_remembered)
{
    for (const auto error : {UCS_ERR_IO_ERROR, UCS_ERR_NO_MEMORY}) {
        teach();
        nic.reg_faults.fail_call(1, error);
        gpu.alloc(A, 4 * MiB);
        ASSERT_TRUE(cache->allocate(A, 4 * MiB));
        while (!nic.reg_faults.hit()) {
            std::this_thread::yield();
        }
        cache->flush();
        use(A, 1);
        EXPECT_EQ(allocate(B), error == UCS_ERR_IO_ERROR);
        use(B, 1);
        release_surely(A);
        release_surely(B);
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

TEST_F(prefetch_test, a_release_waits_for_nothing)
{
    std::promise<void> until;
    begin(until);
    release_surely(A); // returns while the NIC registers
    EXPECT_EQ(nic.live(), 0u);
    until.set_value();
    EXPECT_TRUE(cache->flush()); // waits for the registration and its end
    EXPECT_EQ(nic.live(), 0u);
    EXPECT_EQ(in_vain(), 1u);
}

// The driver must not be called in a context that is being destroyed, nor while
// the process ends.
TEST_F(prefetch_test, the_end_of_contexts_and_of_the_process_waits)
{
    for (const bool process : {false, true}) {
        std::promise<void> until;
        std::atomic<bool> over{false};
        begin(until);
        std::thread later([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            over = true;
            until.set_value();
        });
        process ? cache->stop_prefetching() : cache->invalidate(0, SIZE_MAX);
        EXPECT_TRUE(over);
        later.join();
        release_surely(A);
    }
    EXPECT_FALSE(allocate(B));
}

TEST_F(prefetch_test, a_detached_nic_is_not_used)
{
    std::promise<void> until;
    begin(until);
    std::thread later([&] { until.set_value(); });
    cache->detach(0);
    later.join();
    EXPECT_EQ(nic.live(), 0u);
    cache->attach(nic);
    EXPECT_FALSE(allocate(B));
}

TEST_F(prefetch_test, a_child_of_fork_learns_anew)
{
    std::promise<void> until;
    begin(until);
    EXPECT_TRUE(in_child([&] {
        const nic_id id = cache->attach(nics[1]);
        cache->release(A, 4 * MiB);
        cache->invalidate(0, SIZE_MAX); // waits for no thread of the parent
        return !cache->allocate(B, 4 * MiB) && id > 0;
    }));
    until.set_value();
    cache->flush();
}

// Each of two NICs has the memory of its GPU.
TEST_F(prefetch_test, memory_is_registered_with_the_nic_of_its_gpu)
{
    restart(2);
    for (int i = 0; i < 8; ++i) {
        gpu.alloc(A, 4 * MiB, i % 2);
        use(A, 1, i % 2);
        release_surely(A);
    }
    EXPECT_TRUE(allocate(B, 4 * MiB, 1));
    EXPECT_EQ(nics[0].live(), 0u);
    EXPECT_EQ(nics[1].live(), 1u);
    release_surely(B);
}

// A program that changes its ways does limited harm.
TEST_F(prefetch_test, no_more_waits_for_a_use_than_was_used)
{
    int expected = 0;
    teach(3);
    for (int i = 0; i < 20; ++i) {
        expected += allocate(at(i));
    }
    EXPECT_EQ(expected, 3);
    cache->release(0, SIZE_MAX);
}

// Which allocations the program uses.
struct pattern {
    const char *name;
    std::function<bool(int allocation)> uses;
};

// A loop with buffers that live for an iteration. At most 1 in 20 first uses
// waits, after each kind was used twice.
TEST_F(prefetch_test, a_training_loop)
{
    constexpr int iterations = 40, buffers = 10;
    uint64_t late = 0, uses = 0;
    for (int n = 0; n < iterations; ++n) {
        for (int i = 0; i < buffers; ++i) {
            allocate(A + i * 64 * MiB, (i % 4 + 1) * 4 * MiB + n * 512);
        }
        for (int i = 0; i < buffers; ++i) {
            const counters before;
            use(A + i * 64 * MiB, MiB);
            late +=
                n >= 2 ? counters().registrations - before.registrations : 0;
            uses += n >= 2;
        }
        for (int i = 0; i < buffers; ++i) {
            release_surely(A + i * 64 * MiB);
        }
    }
    EXPECT_LE(late * 20, uses);
    printf("%lu first uses, %lu waited; %lu registered ahead\n", uses, late,
           ahead());
    EXPECT_EQ(in_vain(), 0u);
}

// Memory that is released unused is registered in vain at most once in 20.
TEST_F(prefetch_test, it_learns_from_what_is_released_unused)
{
    const pattern patterns[] = {
        {"half is used", [](int i) { return i % 2 == 0; }},
        {"nine of ten are used", [](int i) { return i % 10 != 0; }},
        {"the program changes", [](int i) { return i < 1000; }},
        {"random", [](int) { return rand() % 3 == 0; }},
        {"and back", [](int i) { return i < 500 || i >= 1500; }}};
    for (const pattern &each : patterns) {
        restart();
        uint64_t late = 0, uses = 0;
        for (int i = 0; i < 2000; ++i) {
            allocate(A);
            if (each.uses(i)) {
                const counters before;
                use(A, 1);
                late += counters().registrations - before.registrations;
                ++uses;
            }
            release_surely(A);
        }
        EXPECT_LE(in_vain() * 20, std::max<uint64_t>(ahead(), 20)) << each.name;
        printf("%s: %lu uses, %lu waited, %lu registered ahead, %lu in vain\n",
               each.name, uses, late, ahead(), in_vain());
    }
}

// PyTorch's segments, as test/side_by_side replays them.
TEST_F(prefetch_test, the_trace_of_pytorch)
{
    const std::string command = "awk -v model=pytorch -f " +
                                std::string(getenv("top_srcdir")) +
                                "/test/side_by_side/traces.awk";
    FILE *trace = popen(command.c_str(), "r");
    ASSERT_NE(trace, nullptr);
    char what[16], line[128];
    uintptr_t address = 0;
    size_t size       = 0;
    bool warm         = false; // memory was released
    uint64_t late = 0, first = 0;
    std::map<uintptr_t, bool> fresh; // allocations that were not used yet
    while (fgets(line, sizeof(line), trace) != nullptr) {
        size = 0;
        ASSERT_GE(sscanf(line, "%15s %lu %lu", what, &address, &size), 2);
        if (std::string(what) == "alloc") {
            allocate(address, size);
            fresh[address] = warm;
        } else if (std::string(what) == "free") {
            warm = true;
            release_surely(address);
            fresh.erase(address);
        } else {
            const counters before;
            use(address, size);
            auto of = std::prev(fresh.upper_bound(address));
            if (std::exchange(of->second, false)) {
                ++first;
                late += counters().registrations - before.registrations;
            }
        }
    }
    EXPECT_EQ(pclose(trace), 0);
    EXPECT_GE(first, 20u);
    EXPECT_LE(late * 20, first) << late << " of " << first;
    EXPECT_LE(in_vain() * 20, ahead());
    printf("%lu first uses after the warm-up, %lu waited; %lu registered "
           "ahead, %lu in vain\n",
           first, late, ahead(), in_vain());
    cache->release(0, SIZE_MAX);
}

} // namespace
