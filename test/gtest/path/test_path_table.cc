// SPDX-License-Identifier: BSD-3-Clause
//
// Each path is checked once, by one thread; other threads wait only if they
// need the same path. Failed operations make the process check paths again, at
// any moment.
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
#include <uct/ib_dmabuf/path/path_table.h>
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

    // Returns the path's state, if a check now returns this result.
    path_state check(const check_result &now, int gpu = 0)
    {
        return nic_.check(gpu, standard, [&] {
            ++calls_;
            return now;
        });
    }
    path_state check(path_state now, int gpu = 0)
    {
        return check({now, "a test"}, gpu);
    }
    void recheck() { table_.recheck("nic0"); }

    path_table table_;
    nic_paths &nic_ = table_.of("nic0", standard);
    int calls_      = 0;
};

TEST_F(test_path_table, each_path_is_checked_once)
{
    const auto run = [&] {
        return check_result{++calls_ == 1 ? proven : broken, "a test"};
    };

    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(proven, nic_.check(0, standard, run));
        EXPECT_EQ(broken, nic_.check(1, standard, run));
        EXPECT_EQ(broken, nic_.check(0, pcie, run));
        EXPECT_EQ(broken, table_.of("nic1", standard).check(0, standard, run));
        EXPECT_EQ(broken, table_.of("nic0", pcie).check(0, standard, run));
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
        EXPECT_EQ(untested, check({untested, "a test", true}, gpu));
    }
    EXPECT_EQ(1, calls_);
    table_.of("nic1", standard).check(0, standard, [&] {
        ++calls_;
        return check_result{};
    });
    EXPECT_EQ(2, calls_);
}

TEST_F(test_path_table, users_of_a_nic_are_told_of_changes)
{
    std::vector<std::string> told;
    table_.call_when_broken([&](const char *nic) {
        told.emplace_back(nic);
        EXPECT_TRUE(nic_.has_broken()) << "it is known by then";
    });

    EXPECT_EQ(0u, nic_.changes());
    check(proven);
    EXPECT_EQ(0u, nic_.changes());
    recheck();
    const uint64_t rechecked = nic_.changes();
    EXPECT_NE(0u, rechecked);
    check(untested);
    EXPECT_EQ(rechecked, nic_.changes());
    EXPECT_TRUE(told.empty());
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(i > 0, nic_.has_broken());
        EXPECT_EQ(i > 0, nic_.is_broken(0, standard));
        check(broken);
    }
    EXPECT_NE(rechecked, nic_.changes());
    EXPECT_EQ(std::vector<std::string>{"nic0"}, told);
    EXPECT_FALSE(table_.of("nic1", standard).has_broken());
    EXPECT_EQ(0u, table_.of("nic1", standard).changes());
}

TEST_F(test_path_table, threads_wait_for_their_own_path_only)
{
    constexpr int count = 8;
    std::atomic<int> calls{0}, over{0};
    std::binary_semaphore begun{0}, go_on{0};
    std::vector<std::thread> threads;

    threads.emplace_back([&] {
        nic_.check(0, standard, [&] {
            ++calls;
            begun.release();
            go_on.acquire();
            return check_result{proven, ""};
        });
    });
    begun.acquire();
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&] {
            EXPECT_EQ(proven, nic_.check(0, standard, [&] {
                ++calls;
                return check_result{broken, ""};
            }));
            ++over;
        });
    }
    // Hangs if this call waits for the other path.
    EXPECT_EQ(proven, check(proven, 1));
    EXPECT_EQ(0, over);
    go_on.release();
    for (std::thread &each : threads) {
        each.join();
    }
    EXPECT_EQ(1, calls);
    EXPECT_EQ(count, over);
}

TEST_F(test_path_table, no_thread_waits_for_ever)
{
    path_table hasty(std::chrono::milliseconds(1));
    nic_paths &nic = hasty.of("nic0", standard);

    nic.check(0, standard, [&] {
        std::thread([&] {
            EXPECT_EQ(untested, nic.check(0, standard, [] {
                return check_result{broken, ""};
            }));
        }).join();
        return check_result{proven, ""};
    });
}

TEST_F(test_path_table, a_child_of_fork_waits_for_no_check)
{
    nic_.check(0, standard, [&] {
        EXPECT_TRUE(in_child([&] { return check(proven) == proven; }));
        return check_result{proven, ""};
    });
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
    EXPECT_EQ(untested, nic_.check(0, standard, [&]() -> check_result {
        if (++calls_ == 2) {
            throw std::bad_alloc();
        }
        recheck();
        return {proven, ""};
    }));
    EXPECT_EQ(2, calls_);
    EXPECT_EQ(broken, check(broken));
}

// A failure during the check may have caused its result.
TEST_F(test_path_table, a_check_with_a_failure_meanwhile_is_repeated)
{
    for (path_state first : {broken, untested}) {
        calls_ = 0;
        EXPECT_EQ(proven,
                  nic_.check(first == broken, standard, [&]() -> check_result {
                      if (++calls_ == 1) {
                          recheck();
                          return {first, "a test"};
                      }
                      return {proven, ""};
                  }));
        EXPECT_EQ(2, calls_);
        EXPECT_EQ(0u, process_counters.get("refuted"));
    }
}

// For now the path is not used, either.
TEST_F(test_path_table, a_check_is_not_repeated_for_ever)
{
    EXPECT_EQ(path_state::recheck, nic_.check(0, standard, [&] {
        ++calls_;
        recheck();
        return check_result{proven, ""};
    }));
    EXPECT_EQ(3, calls_);
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
    nic_paths &once = table_.of("nic1", standard);
    once.check(0, standard, [&] { return silent; });
    table_.recheck("nic1");
    EXPECT_EQ(proven, once.check(0, standard, [] {
        return check_result{proven, ""};
    }));
    // A failure during the check causes no second wait.
    calls_ = 0;
    table_.of("nic2", standard).check(0, standard, [&] {
        ++calls_;
        table_.recheck("nic2");
        return silent;
    });
    EXPECT_EQ(1, calls_);
}

TEST_F(test_path_table, a_recheck_needs_no_memory)
{
    alloc_faults::each([&](alloc_faults::plan &what) {
        path_table table;
        nic_paths &nic   = table.of("nic0", standard);
        const auto check = [&](path_state now) {
            return nic.check(0, standard, [&] {
                return check_result{now, "a test"};
            });
        };

        check(proven);
        {
            const alloc_faults::armed here(what);
            table.recheck("nic0");
            table.recheck("a NIC with a name that is not short");
        }
        EXPECT_EQ(broken, check(broken));
    });
}

TEST_F(test_path_table, a_probe_is_remembered_until_a_path_changes)
{
    const uint64_t before = nic_.changes();

    EXPECT_EQ(std::nullopt, nic_.probed(0));
    nic_.set_probed(0, true, before);
    EXPECT_EQ(true, nic_.probed(0));
    EXPECT_EQ(std::nullopt, nic_.probed(1));
    recheck();
    EXPECT_EQ(std::nullopt, nic_.probed(0));
    nic_.set_probed(0, false, before);
    EXPECT_EQ(std::nullopt, nic_.probed(0)) << "the probe began before";
    nic_.set_probed(0, false, nic_.changes());
    EXPECT_EQ(false, nic_.probed(0));
}

} // namespace
