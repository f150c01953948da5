// SPDX-License-Identifier: BSD-3-Clause
#include "prefetch.h"
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

// Which allocations are expected to be used. The tests count; none has a limit
// of time.
namespace {

using predictor_test = prefetch_test;

// An allocation teaches once, whatever number of NICs uses it.
TEST_F(predictor_test, many_nics_are_one_use)
{
    restart(8);
    allocate(C);
    for (nic_id id = 0; id < 8; ++id) {
        use(C, 1, id);
    }
    EXPECT_FALSE(allocate(A));
    release_all();
}

// Half of many is used, all alive at once.
TEST_F(predictor_test, many_allocations_teach)
{
    for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 1000; ++i) {
            allocate(at(i));
        }
        for (int i = 0; i < 500; ++i) {
            use(at(2 * i), 1);
        }
        for (int i = 0; i < 1000; ++i) {
            release_surely(at(i));
        }
    }
    printf("%lu ahead, %lu in vain\n", ahead(), in_vain());
    EXPECT_LE(in_vain(), 40u);
}

// Each is registered ahead, and none is used.
TEST_F(predictor_test, what_was_registered_in_vain_teaches)
{
    teach(64);
    for (int i = 0; i < 64; ++i) {
        EXPECT_TRUE(allocate(at(i)));
    }
    for (int i = 64; i < 200; ++i) {
        EXPECT_FALSE(allocate(at(i))); // too many wait for a use
    }
    for (int i = 0; i < 200; ++i) {
        release_surely(at(i));
    }
    EXPECT_EQ(in_vain(), 64u);
    EXPECT_FALSE(allocate(A));
    release_surely(A);
}

// Memory that lives long keeps no place for ever.
TEST_F(predictor_test, long_lived_memory_does_not_end_the_learning)
{
    teach(1);
    for (int i = 0; i < 200; ++i) {
        allocate(at(i)); // expected once C is used again
    }
    teach(64);
    EXPECT_TRUE(allocate(B));
    EXPECT_FALSE(first_use(B));
    cache->release(0, SIZE_MAX);
}

// Each of two NICs has the memory of its GPU.
TEST_F(predictor_test, memory_is_registered_with_the_nic_of_its_gpu)
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
TEST_F(predictor_test, no_more_waits_for_a_use_than_was_used)
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
TEST_F(predictor_test, a_training_loop)
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

TEST_F(predictor_test, it_learns_from_memory_that_is_released_unused)
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
TEST_F(predictor_test, the_trace_of_pytorch)
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
