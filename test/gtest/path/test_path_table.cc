// SPDX-License-Identifier: BSD-3-Clause
//
// Each path is checked once, by one thread; other threads wait only if they
// need the same path. Failed operations make the process check paths again, at
// any moment.
#include "fake_nic.h"
#include <algorithm>
#include <atomic>
#include <common/alloc_faults.h>
#include <common/elsewhere.h>
#include <cstdarg>
#include <cstdio>
#include <gtest/gtest.h>
#include <new>
#include <semaphore>
#include <thread>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/ucs.h>
#include <utility>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

using enum path_state;
constexpr reg_method standard = reg_method::standard;
constexpr reg_method pcie     = reg_method::pcie;

// Called once, for the first log line below the level of a warning.
std::function<void()> when_told;

void dispatch(const char *, unsigned, const char *, int level, const int *,
              const char *format, ...)
{
    if (level > static_cast<int>(log_level::warn)) {
        if (when_told) {
            std::exchange(when_told, nullptr)();
        }
        return;
    }
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

struct where {
    const char *nic      = "nic0";
    int gpu              = 0;
    reg_method method    = standard;
    reg_method preferred = standard;
};

class test_path_table : public testing::Test {
protected:
    test_path_table()
    {
        static const int level = static_cast<int>(log_level::debug);
        static const ucs_functions ucs{
            dispatch, &level, [](ucs_status_t) { return "a status"; }, nullptr};
        set_first_ucs(ucs);
        process_counters.clear();
    }
    ~test_path_table() override { when_told = nullptr; }

    // Returns the path's state, if a check that calls `during_` now returns
    // this result.
    path_state check(const check_result &now, const where &at = {})
    {
        nic_paths &nic = table_.of(at.nic);
        return nic.check(&nic.pair(at.gpu, at.preferred).of(at.method), at.gpu,
                         at.method, [&] {
                             ++calls_;
                             if (during_) {
                                 during_();
                             }
                             return now;
                         });
    }
    path_state check(path_state now, const where &at = {})
    {
        return check(check_result{now, "a test"}, at);
    }
    void recheck() { table_.recheck("nic0"); }
    bool has_broken() { return table_.of("nic0").has_broken(); }

    std::vector<std::string> told_; // NICs with a new broken path
    path_table table_{[this](const char *nic) {
        told_.emplace_back(nic);
        EXPECT_TRUE(table_.of(nic).has_broken()) << "it is known by then";
    }};
    std::atomic<int> calls_{0};
    std::function<void()> during_; // set before a thread starts
};

TEST_F(test_path_table, each_path_is_checked_once)
{
    const where all[] = {
        {}, {.gpu = 1}, {.method = pcie}, {.nic = "nic1"}, {.preferred = pcie}};

    ::testing::internal::CaptureStderr();
    for (path_state now : {broken, proven}) {
        for (const where &each : all) {
            EXPECT_EQ((each.gpu == 1) ? proven : broken,
                      check((each.gpu == 1) ? proven : now, each));
        }
    }
    EXPECT_EQ(5, calls_);
    EXPECT_EQ(5u, process_counters.get("proofs"));
    EXPECT_EQ(4u, process_counters.get("refuted"));
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos,
              said.find("nic1 and GPU 0's memory (dma-buf): a test."))
        << said;
}

// Checks for each of its GPUs would take seconds.
TEST_F(test_path_table, a_nic_that_does_not_reach_itself_is_checked_once)
{
    for (int gpu : {0, 1, 0, 1}) {
        EXPECT_EQ(untested, check({untested, "a test", true}, {.gpu = gpu}));
    }
    EXPECT_EQ(1, calls_);
    check(untested, {.nic = "nic1"});
    EXPECT_EQ(2, calls_);
}

TEST_F(test_path_table, users_of_a_nic_are_told_of_a_broken_path)
{
    for (path_state now : {proven, untested, broken}) {
        EXPECT_FALSE(has_broken());
        EXPECT_TRUE(told_.empty());
        check(now, {.gpu = static_cast<int>(now)});
    }
    EXPECT_TRUE(has_broken());
    EXPECT_FALSE(table_.of("nic1").has_broken());
    EXPECT_EQ(std::vector<std::string>{"nic0"}, told_);
}

// Peer memory may take a path that only another instance of UCX uses.
TEST_F(test_path_table, a_path_that_another_instance_found_broken_is_known)
{
    check(broken, {.preferred = pcie});
    EXPECT_TRUE(has_broken());
    EXPECT_EQ(proven, check(proven));
}

TEST_F(test_path_table, threads_wait_for_their_own_path_only)
{
    constexpr int count = 8;
    std::atomic<int> over{0};
    std::binary_semaphore begun{0}, go_on{0};
    std::vector<std::thread> threads;

    during_ = [&] {
        if (calls_ == 1) {
            begun.release();
            go_on.acquire();
        }
    };
    threads.emplace_back([&] { check(proven); });
    begun.acquire();
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&] {
            EXPECT_EQ(proven, check(broken));
            ++over;
        });
    }
    // Hangs if this call waits for the other path.
    EXPECT_EQ(proven, check(proven, {.gpu = 1}));
    EXPECT_EQ(0, over);
    go_on.release();
    for (std::thread &each : threads) {
        each.join();
    }
    EXPECT_EQ(2, calls_);
    EXPECT_EQ(count, over);
}

TEST_F(test_path_table, no_thread_waits_for_ever)
{
    during_ = [&] {
        std::atomic<bool> over{false};
        std::thread other([&] {
            EXPECT_EQ(untested, check(broken));
            over = true;
        });
        while (!over) {
            path_test::pass(std::chrono::seconds(1));
            std::this_thread::yield();
        }
        other.join();
    };
    EXPECT_EQ(proven, check(proven));
    EXPECT_EQ(1, calls_);
}

TEST_F(test_path_table, a_child_of_fork_waits_for_no_check)
{
    during_ = [&] {
        EXPECT_TRUE((calls_ > 1) ||
                    in_child([&] { return check(proven) == proven; }));
    };
    check(proven);
}

// The thread holds the lock most of the time.
TEST_F(test_path_table, a_child_of_fork_waits_for_no_thread_with_the_lock)
{
    std::atomic<bool> over{false};
    std::thread other([&] {
        while (!over) {
            recheck();
        }
    });

    for (int i = 0; i < 50 && !HasFailure(); ++i) {
        EXPECT_TRUE(in_child([&] {
            alarm(120); // ends a deadlock
            return check(proven) == proven;
        }));
    }
    over = true;
    other.join();
}

TEST_F(test_path_table, a_recheck_while_a_result_is_logged_counts)
{
    when_told = [&] { recheck(); };
    EXPECT_EQ(proven, check(proven));
    EXPECT_EQ(nullptr, when_told);
    EXPECT_EQ(broken, check(broken));
    EXPECT_EQ(2, calls_);
}

TEST_F(test_path_table, a_path_is_untested_if_the_next_round_has_no_memory)
{
    during_ = [&] {
        if (calls_ == 2) {
            throw std::bad_alloc();
        }
        recheck();
    };
    EXPECT_EQ(untested, check(proven));
    EXPECT_EQ(2, calls_);
    during_ = nullptr;
    EXPECT_EQ(broken, check(broken));
}

// A failure during the check may have caused its result.
TEST_F(test_path_table, a_check_with_a_failure_meanwhile_is_repeated)
{
    for (path_state first : {broken, untested}) {
        check_result now{first, "a test"};
        calls_  = 0;
        during_ = [&] {
            if (calls_ == 1) {
                recheck();
            } else {
                now = {proven, ""};
            }
        };
        EXPECT_EQ(proven, check(now, {.gpu = first == broken}));
        EXPECT_EQ(2, calls_);
        EXPECT_EQ(0u, process_counters.get("refuted"));
    }
}

// For now the path is not used, either.
TEST_F(test_path_table, a_check_is_not_repeated_for_ever)
{
    during_ = [&] { recheck(); };
    EXPECT_EQ(unchecked, check(proven));
    EXPECT_EQ(3, calls_);
    during_ = nullptr;
    EXPECT_EQ(proven, check(proven));
    EXPECT_EQ(4, calls_);
}

TEST_F(test_path_table, a_broken_path_stays_broken)
{
    EXPECT_EQ(broken, check(broken));
    recheck();
    EXPECT_EQ(broken, check(proven));
    EXPECT_EQ(1, calls_);
}

// The reported failure may have prevented the earlier checks.
TEST_F(test_path_table, an_untested_path_is_checked_three_times)
{
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(untested, check(untested));
    }
    EXPECT_EQ(3, calls_);
    recheck();
    EXPECT_EQ(untested, check(untested));
    EXPECT_EQ(proven, check(proven));
    EXPECT_EQ(5, calls_);
    EXPECT_EQ(1u, process_counters.get("proofs"));
}

// Each such check takes seconds, so it runs three times at most.
TEST_F(test_path_table, a_nic_that_did_not_reach_itself_is_checked_again)
{
    const check_result silent{untested, "a test", true};

    for (int i = 1; i < 6; ++i) {
        EXPECT_EQ(untested, check(silent));
        EXPECT_EQ(untested, check(proven));
        EXPECT_EQ(std::min(i, 3), calls_);
        recheck();
    }
    check(silent, {.nic = "nic1"});
    table_.recheck("nic1");
    EXPECT_EQ(proven, check(proven, {.nic = "nic1"}));
    // A failure during the check causes no second wait.
    calls_  = 0;
    during_ = [&] { table_.recheck("nic2"); };
    check(silent, {.nic = "nic2"});
    EXPECT_EQ(1, calls_);
}

TEST_F(test_path_table, a_recheck_needs_no_memory)
{
    alloc_faults::each([&](alloc_faults::plan &what) {
        check(proven);
        {
            const alloc_faults::armed here(what);
            recheck();
            table_.recheck("a NIC with a name that is not short");
        }
        EXPECT_EQ(untested, check(untested));
        recheck();
    });
}

} // namespace
