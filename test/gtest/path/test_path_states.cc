// SPDX-License-Identifier: BSD-3-Clause
//
// Each path is proven once, by one thread. Other threads wait only if they need
// the same path.
#include <atomic>
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <semaphore>
#include <string>
#include <thread>
#include <uct/ib_dmabuf/path/path_states.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

const proofs::path first{"nic0", 0, ladder_step::standard};

TEST(test_proofs, each_path_is_proven_once)
{
    proofs all;
    int calls = 0;
    process_counters.clear();
    const auto prove = [&] {
        return verdict{++calls == 1 ? finding::carries : finding::refuted,
                       "a test"};
    };

    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(finding::carries, all.ask(first, prove));
        for (const proofs::path &other :
             {proofs::path{"nic1", 0, ladder_step::standard},
              proofs::path{"nic0", 1, ladder_step::standard},
              proofs::path{"nic0", 0, ladder_step::pcie}}) {
            EXPECT_EQ(finding::refuted, all.ask(other, prove));
        }
    }
    EXPECT_EQ(4, calls);
    EXPECT_EQ(4u, process_counters.get("proofs"));
    EXPECT_EQ(3u, process_counters.get("refuted"));
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos,
              said.find("nic1 and GPU 0's memory (dma-buf): a test."))
        << said;
}

// Asking again for each of its GPUs would take seconds.
TEST(test_proofs, a_nic_that_does_not_reach_itself_is_asked_once)
{
    proofs all;
    int calls        = 0;
    const auto prove = [&] {
        ++calls;
        return verdict{finding::unknown, "a test", true};
    };

    for (int gpu : {0, 1, 0, 1}) {
        EXPECT_EQ(finding::unknown,
                  all.ask({"nic0", gpu, ladder_step::standard}, prove));
    }
    EXPECT_EQ(1, calls);
    all.ask({"nic1", 0, ladder_step::standard}, prove);
    EXPECT_EQ(2, calls);
}

TEST(test_proofs, who_uses_a_nic_is_told_what_changes)
{
    proofs all;
    std::vector<std::string> told;
    all.call_when_refuted([&](const char *nic) {
        told.emplace_back(nic);
        EXPECT_TRUE(all.has_refuted(nic)) << "it is known by then";
    });
    const auto ask = [&](const proofs::path &which, finding now) {
        all.ask(which, [&] { return verdict{now, "a test"}; });
    };

    EXPECT_EQ(0u, all.changes("nic0"));
    ask(first, finding::carries);
    EXPECT_EQ(0u, all.changes("nic0"));
    all.doubt("nic0");
    const uint64_t doubted = all.changes("nic0");
    EXPECT_NE(0u, doubted);
    ask(first, finding::unknown);
    EXPECT_EQ(doubted, all.changes("nic0"));
    EXPECT_TRUE(told.empty());
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(i > 0, all.has_refuted("nic0"));
        ask(first, finding::refuted);
    }
    EXPECT_NE(doubted, all.changes("nic0"));
    EXPECT_EQ(std::vector<std::string>{"nic0"}, told);
    EXPECT_FALSE(all.has_refuted("nic1"));
    EXPECT_EQ(0u, all.changes("nic1"));
}

TEST(test_proofs, threads_wait_for_their_own_path_only)
{
    constexpr int count = 8;
    proofs all;
    std::atomic<int> calls{0}, over{0};
    std::binary_semaphore begun{0}, go_on{0};
    std::vector<std::thread> threads;

    threads.emplace_back([&] {
        all.ask(first, [&] {
            ++calls;
            begun.release();
            go_on.acquire();
            return verdict{finding::carries, ""};
        });
    });
    begun.acquire();
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&] {
            EXPECT_EQ(finding::carries, all.ask(first, [&] {
                ++calls;
                return verdict{finding::refuted, ""};
            }));
            ++over;
        });
    }
    // Hangs if this call waits for the other path.
    EXPECT_EQ(finding::carries, all.ask({"nic1", 0, ladder_step::standard}, [] {
        return verdict{finding::carries, ""};
    }));
    EXPECT_EQ(0, over);
    go_on.release();
    for (std::thread &each : threads) {
        each.join();
    }
    EXPECT_EQ(1, calls);
    EXPECT_EQ(count, over);
}

TEST(test_proofs, nobody_waits_for_ever)
{
    proofs all(std::chrono::milliseconds(1));

    all.ask(first, [&] {
        std::thread([&] {
            EXPECT_EQ(finding::unknown, all.ask(first, [] {
                return verdict{finding::refuted, ""};
            }));
        }).join();
        return verdict{finding::carries, ""};
    });
}

TEST(test_proofs, a_child_of_fork_waits_for_nobody)
{
    proofs all;
    const verdict good{finding::carries, ""};

    all.ask(first, [&] {
        EXPECT_TRUE(in_child([&] {
            return all.ask(first, [&] { return good; }) == finding::carries;
        }));
        return good;
    });
}

} // namespace
