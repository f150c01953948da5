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

// New memory is registered before its first use, if earlier memory of its size
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
    // Allocates. Waits until what is expected is registered, or was tried.
    bool allocate(uintptr_t base, size_t size = 4 * MiB, int device = 0)
    {
        gpu.alloc(base, size, device);
        const bool expected = cache->allocate(base, size);
        while (expected && !has_entry(base) && !nic.reg_faults.hit()) {
            std::this_thread::yield();
        }
        cache->flush(); // until it is published
        return expected;
    }
    bool has_entry(uintptr_t base)
    {
        bool found = false;
        for (const fakes::nic &each : nics) {
            each.each([&](const fakes::registration &one) {
                found |= one.address <= base && base < one.address + one.length;
            });
        }
        return found;
    }
    void release_all()
    {
        cache->release(0, SIZE_MAX);
        for (const uintptr_t base : {A, B, C}) {
            if (gpu.allocated(base)) {
                gpu.free(base);
            }
        }
    }
    // Uses memory. Returns whether it was not registered yet.
    bool first_use(uintptr_t base, size_t size = 1)
    {
        const counters before;
        use(base, size);
        return counters().registrations > before.registrations;
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
    // Begins to register A, up to a call of the NIC, which waits.
    void begin(std::promise<void> &until)
    {
        teach();
        auto begun     = std::make_shared<std::promise<void>>();
        nic.during_reg = [begun, &until] {
            begun->set_value();
            until.get_future().wait();
        };
        gpu.alloc(A, 4 * MiB);
        EXPECT_TRUE(cache->allocate(A, 4 * MiB));
        begun->get_future().wait();
    }
};

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
// the process ends. A NIC is not used after it was detached.
TEST_F(prefetch_test, ends_of_contexts_processes_and_nics_wait)
{
    const std::function<void()> ends[] = {
        [&] { cache->invalidate(0, SIZE_MAX); },
        [&] {
            cache->detach(0);
            EXPECT_EQ(nic.live(), 0u);
            cache->attach(nic);
        },
        [&] { cache->stop_prefetching(); }};
    for (const auto &end : ends) {
        std::promise<void> until;
        std::atomic<bool> over{false};
        begin(until);
        std::thread later([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            over = true;
            until.set_value();
        });
        end();
        EXPECT_TRUE(over);
        later.join();
        use(A, 1); // so that it is not in vain
        release_surely(A);
    }
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
        allocate(A, 4 * MiB, i % 2);
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

// Checks the limits: 1 in 20 first uses waits, and as many are in vain.
void check_and_print(const char *name, uint64_t uses, uint64_t late)
{
    EXPECT_LE(in_vain() * 20, std::max<uint64_t>(ahead(), 20)) << name;
    printf("%s: %lu first uses, %lu waited, %lu registered ahead, %lu in "
           "vain\n",
           name, uses, late, ahead(), in_vain());
}

// Buffers that live for an iteration. Two iterations are the warm-up.
TEST_F(prefetch_test, a_training_loop)
{
    uint64_t late = 0, uses = 0;
    for (int n = 0; n < 40; ++n) {
        for (int i = 0; i < 10; ++i) {
            allocate(A + i * 64 * MiB, (i % 4 + 1) * 4 * MiB + n * 512);
        }
        for (int i = 0; i < 10; ++i) {
            const bool waited = first_use(A + i * 64 * MiB, MiB);
            late += n >= 2 && waited;
            uses += n >= 2;
        }
        for (int i = 0; i < 10; ++i) {
            release_surely(A + i * 64 * MiB);
        }
    }
    EXPECT_LE(late * 20, uses);
    check_and_print("training", uses, late);
}

TEST_F(prefetch_test, it_learns_from_memory_that_is_released_unused)
{
    const struct {
        const char *name;
        std::function<bool(int allocation)> uses;
    } patterns[] = {{"half is used", [](int i) { return i % 2 == 0; }},
                    {"nine of ten are used", [](int i) { return i % 10 != 0; }},
                    {"the program changes", [](int i) { return i < 1000; }},
                    {"random", [](int) { return rand() % 3 == 0; }},
                    {"and back", [](int i) { return i < 500 || i >= 1500; }}};
    for (const auto &each : patterns) {
        restart();
        uint64_t late = 0, uses = 0;
        for (int i = 0; i < 2000; ++i) {
            allocate(A);
            if (each.uses(i)) {
                late += first_use(A);
                ++uses;
            }
            release_surely(A);
        }
        check_and_print(each.name, uses, late);
    }
}

// PyTorch's segments, as test/side_by_side replays them. The warm-up ends with
// the first release.
TEST_F(prefetch_test, the_trace_of_pytorch)
{
    FILE *trace = popen((std::string("awk -v model=pytorch -f ") +
                         getenv("top_srcdir") + "/test/side_by_side/traces.awk")
                            .c_str(),
                        "r");
    ASSERT_NE(trace, nullptr);
    char what[16], line[128];
    uintptr_t address = 0;
    size_t size       = 0;
    bool warm         = false;
    uint64_t late = 0, first = 0;
    std::map<uintptr_t, bool> fresh; // allocations that were not used yet
    while (fgets(line, sizeof(line), trace) != nullptr) {
        ASSERT_GE(sscanf(line, "%15s %lu %lu", what, &address, &size), 2);
        if (std::string(what) == "alloc") {
            allocate(address, size);
            fresh[address] = warm;
        } else if (std::string(what) == "free") {
            warm = true;
            release_surely(address);
            fresh.erase(address);
        } else {
            const bool counts = std::exchange(
                std::prev(fresh.upper_bound(address))->second, false);
            late += first_use(address, size) && counts;
            first += counts;
        }
    }
    EXPECT_EQ(pclose(trace), 0);
    EXPECT_GE(first, 20u);
    EXPECT_LE(late * 20, first);
    check_and_print("PyTorch", first, late);
    cache->release(0, SIZE_MAX);
}

} // namespace
