// SPDX-License-Identifier: BSD-3-Clause
//
// Operations that fail, at any moment: what was found before that is found out
// anew, by this process and by others, also where memory is short.
#include "file_hooks.h"
#include <common/alloc_faults.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <string>
#include <uct/ib_dmabuf/host/log.h>
#include <uct/ib_dmabuf/host/ucs.h>
#include <uct/ib_dmabuf/prove/proofs.h>
#include <utility>

using namespace ucx_ib_dmabuf;
using prove_test::hooks;

namespace {

const proofs::path path{"nic0", 0, ladder_step::standard, ""};
const std::string key = "boot1 a path", other_key = "boot1 another";

// Called for each line of the log but warnings, once.
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

class test_doubts : public testing::Test {
protected:
    test_doubts()
    {
        static const int level = static_cast<int>(log_level::debug);
        static const ucs_functions ucs{dispatch, &level, nullptr, nullptr};
        set_first_ucs(ucs);
    }
    ~test_doubts() override
    {
        const std::string command = "rm -rf " + top_;
        EXPECT_EQ(0, system(command.c_str()));
        hooks     = {};
        when_told = nullptr;
    }

    // What is known afterwards, if a proof says this.
    finding ask(verdict now)
    {
        return process_.ask(
            path, [] { return key; },
            [&] {
                ++calls_;
                return now;
            });
    }
    finding ask(finding now) { return ask({now, "a test"}); }
    void doubt() { process_.doubt("nic0"); }

    static std::string make_folder()
    {
        char name[] = "/tmp/test_doubts.XXXXXX";
        return mkdtemp(name);
    }

    const std::string top_ = make_folder();
    const node_file node_{top_ + "/node"};
    proofs process_{&node_, true};
    int calls_ = 0;
};

TEST_F(test_doubts, one_that_comes_while_a_proof_is_told_counts)
{
    when_told = [&] { doubt(); };
    EXPECT_EQ(finding::carries, ask(finding::carries));
    EXPECT_EQ(nullptr, when_told);
    EXPECT_FALSE(node_.has(key));
    EXPECT_EQ(finding::refuted, ask(finding::refuted));
    EXPECT_EQ(2, calls_);
}

// Before the line is written, and after it.
TEST_F(test_doubts, one_that_comes_while_it_is_kept_counts)
{
    for (auto *hook : {&hooks.before_lock, &hooks.after_unlock}) {
        *hook = [this] { doubt(); };
        EXPECT_EQ(finding::carries, ask(finding::carries));
        EXPECT_EQ(2, std::exchange(calls_, 0));
        EXPECT_TRUE(node_.has(key)) << "what was found after that";
        doubt();
    }
}

TEST_F(test_doubts, none_leaves_the_line_if_what_follows_has_no_memory)
{
    for (auto *hook : {&hooks.before_lock, &hooks.after_unlock}) {
        *hook = [this] { doubt(); };
        EXPECT_EQ(finding::unknown, process_.ask(
                                        path, [] { return key; },
                                        [&]() -> verdict {
                                            if (++calls_ == 2) {
                                                throw std::bad_alloc();
                                            }
                                            return {finding::carries, ""};
                                        }));
        EXPECT_EQ(2, std::exchange(calls_, 0));
        EXPECT_FALSE(node_.has(key));
    }
}

// A refutation that ran over the failure may be of that.
TEST_F(test_doubts, whatever_a_proof_says_that_ran_over_one_it_is_made_again)
{
    for (finding over : {finding::refuted, finding::unknown}) {
        proofs process;
        int calls = 0;
        EXPECT_EQ(finding::carries,
                  process.ask(path, nullptr, [&]() -> verdict {
                      if (++calls == 1) {
                          process.doubt("nic0");
                          return {over, "a test"};
                      }
                      return {finding::carries, ""};
                  }));
        EXPECT_EQ(2, calls);
        EXPECT_EQ(0u, process.refuted());
    }
}

// Nor is the path used, for now.
TEST_F(test_doubts, a_proof_is_not_made_for_ever)
{
    EXPECT_EQ(finding::doubtful, process_.ask(
                                     path, [] { return key; },
                                     [&] {
                                         ++calls_;
                                         hooks.before_lock = [this] {
                                             doubt();
                                         };
                                         return verdict{finding::carries, ""};
                                     }));
    EXPECT_EQ(3, calls_);
    EXPECT_FALSE(node_.has(key));
    hooks = {};
    EXPECT_EQ(finding::carries, ask(finding::carries));
    EXPECT_EQ(4, calls_);
}

// It may have been that which is over now; the line is another process's.
TEST_F(test_doubts, what_could_not_be_found_out_is_asked_again)
{
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(finding::unknown, ask(finding::unknown));
    }
    EXPECT_EQ(3, calls_);
    node_.keep(key);
    node_.keep(other_key);
    doubt();
    EXPECT_FALSE(node_.has(key));
    EXPECT_TRUE(node_.has(other_key));
    EXPECT_EQ(finding::unknown, ask(finding::unknown));
    EXPECT_EQ(finding::carries, ask(finding::carries));
    EXPECT_EQ(5, calls_);
}

// As that takes seconds, a few times only.
TEST_F(test_doubts, a_nic_that_did_not_reach_itself_is_asked_again)
{
    const verdict silent{finding::unknown, "a test", true};

    for (int i = 1; i < 6; ++i) {
        EXPECT_EQ(finding::unknown, ask(silent));
        EXPECT_EQ(finding::unknown, ask(finding::carries));
        EXPECT_EQ(std::min(i, 3), calls_);
        doubt();
    }
    proofs once;
    once.ask(path, nullptr, [&] { return silent; });
    once.doubt("nic0");
    EXPECT_EQ(finding::carries, once.ask(path, nullptr, [] {
        return verdict{finding::carries, ""};
    }));
}

TEST_F(test_doubts, none_needs_memory)
{
    const unsigned fail = alloc_faults::each([&](alloc_faults::plan &what) {
        proofs process(&node_, true);
        const auto ask = [&](finding now) {
            return process.ask(
                path, [] { return key; },
                [&] {
                    return verdict{now, "a test"};
                });
        };

        ask(finding::carries);
        EXPECT_TRUE(node_.has(key));
        {
            const alloc_faults::armed here(what);
            process.doubt("nic0");
        }
        EXPECT_FALSE(node_.has(key));
        EXPECT_EQ(finding::refuted, ask(finding::refuted));
    });
    EXPECT_GT(fail, 0u);
}

// What is in the file is of before that.
TEST_F(test_doubts, none_of_a_nic_that_was_not_asked_of_needs_memory)
{
    alloc_faults::each([&](alloc_faults::plan &what) {
        proofs process(&node_, true);

        node_.keep(key);
        {
            const alloc_faults::armed here(what);
            process.doubt("a NIC with a name that is not short");
        }
        EXPECT_EQ(finding::refuted,
                  process.ask(
                      {"a NIC with a name that is not short", 0,
                       ladder_step::standard, ""},
                      [] { return key; },
                      [] {
                          return verdict{finding::refuted, "a test"};
                      }));
    });
}

} // namespace
