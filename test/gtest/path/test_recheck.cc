// SPDX-License-Identifier: BSD-3-Clause
//
// Failed operations make the process check their paths again, at any moment and
// even without free memory.
#include <algorithm>
#include <common/alloc_faults.h>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <uct/ib_dmabuf/path/path_states.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/ucs.h>
#include <utility>

using namespace ucx_ib_dmabuf;

namespace {

const proofs::path path{"nic0", 0, ladder_step::standard};

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

class test_doubts : public testing::Test {
protected:
    test_doubts()
    {
        static const int level = static_cast<int>(log_level::debug);
        static const ucs_functions ucs{dispatch, &level, nullptr, nullptr};
        set_first_ucs(ucs);
    }
    ~test_doubts() override { when_told = nullptr; }

    // Returns the path's finding, if a proof now returns this verdict.
    finding ask(verdict now)
    {
        return process_.ask(path, [&] {
            ++calls_;
            return now;
        });
    }
    finding ask(finding now) { return ask({now, "a test"}); }
    void doubt() { process_.doubt("nic0"); }

    proofs process_;
    int calls_ = 0;
};

TEST_F(test_doubts, one_that_comes_while_a_proof_is_told_counts)
{
    when_told = [&] { doubt(); };
    EXPECT_EQ(finding::carries, ask(finding::carries));
    EXPECT_EQ(nullptr, when_told);
    EXPECT_EQ(finding::refuted, ask(finding::refuted));
    EXPECT_EQ(2, calls_);
}

TEST_F(test_doubts, nothing_is_known_if_what_follows_has_no_memory)
{
    EXPECT_EQ(finding::unknown, process_.ask(path, [&]() -> verdict {
        if (++calls_ == 2) {
            throw std::bad_alloc();
        }
        doubt();
        return {finding::carries, ""};
    }));
    EXPECT_EQ(2, calls_);
    EXPECT_EQ(finding::refuted, ask(finding::refuted));
}

// A failure during the proof may have caused the refutation.
TEST_F(test_doubts, whatever_a_proof_says_that_ran_over_one_it_is_made_again)
{
    for (finding over : {finding::refuted, finding::unknown}) {
        proofs process;
        int calls = 0;
        process_counters.clear();
        EXPECT_EQ(finding::carries, process.ask(path, [&]() -> verdict {
            if (++calls == 1) {
                process.doubt("nic0");
                return {over, "a test"};
            }
            return {finding::carries, ""};
        }));
        EXPECT_EQ(2, calls);
        EXPECT_EQ(0u, process_counters.get("refuted"));
    }
}

// For now the path is not used, either.
TEST_F(test_doubts, a_proof_is_not_made_for_ever)
{
    EXPECT_EQ(finding::doubtful, process_.ask(path, [&] {
        ++calls_;
        doubt();
        return verdict{finding::carries, ""};
    }));
    EXPECT_EQ(3, calls_);
    EXPECT_EQ(finding::carries, ask(finding::carries));
    EXPECT_EQ(4, calls_);
}

TEST_F(test_doubts, what_is_refuted_stays_so)
{
    EXPECT_EQ(finding::refuted, ask(finding::refuted));
    doubt();
    EXPECT_EQ(finding::refuted, ask(finding::carries));
    EXPECT_EQ(1, calls_);
}

// The reported failure may have prevented the earlier proofs.
TEST_F(test_doubts, what_could_not_be_found_out_is_asked_again)
{
    process_counters.clear();
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(finding::unknown, ask(finding::unknown));
    }
    EXPECT_EQ(3, calls_);
    doubt();
    EXPECT_EQ(finding::unknown, ask(finding::unknown));
    EXPECT_EQ(finding::carries, ask(finding::carries));
    EXPECT_EQ(5, calls_);
    EXPECT_EQ(1u, process_counters.get("proofs"));
}

// Each such proof takes seconds, so it runs three times at most.
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
    once.ask(path, [&] { return silent; });
    once.doubt("nic0");
    EXPECT_EQ(finding::carries, once.ask(path, [] {
        return verdict{finding::carries, ""};
    }));
    proofs busy; // a failure during the proof causes no second wait
    busy.ask(path, [&] {
        ++calls_;
        busy.doubt("nic0");
        return silent;
    });
    EXPECT_EQ(4, calls_);
}

TEST_F(test_doubts, none_needs_memory)
{
    alloc_faults::each([&](alloc_faults::plan &what) {
        proofs process;
        const auto ask = [&](finding now) {
            return process.ask(path, [&] { return verdict{now, "a test"}; });
        };

        ask(finding::carries);
        {
            const alloc_faults::armed here(what);
            process.doubt("nic0");
        }
        EXPECT_EQ(finding::refuted, ask(finding::refuted));
    });
}

TEST_F(test_doubts, none_of_a_nic_that_was_not_asked_of_needs_memory)
{
    const unsigned fail = alloc_faults::each([&](alloc_faults::plan &what) {
        const char name[] = "a NIC with a name that is not short";
        proofs process;
        {
            const alloc_faults::armed here(what);
            process.doubt(name);
        }
        EXPECT_EQ(finding::refuted,
                  process.ask({name, 0, ladder_step::standard}, [] {
                      return verdict{finding::refuted, "a test"};
                  }));
    });
    EXPECT_GT(fail, 0u);
}

} // namespace
