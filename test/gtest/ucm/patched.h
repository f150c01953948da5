// SPDX-License-Identifier: BSD-3-Clause
//
// The tests of patched functions that are the same for each architecture.
#pragma once

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucm/code_patch.h>
#include <ucm/machine_code.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

constexpr int any_access  = PROT_READ | PROT_WRITE | PROT_EXEC;
constexpr size_t far_page = 1 << 16; // or several

struct Case {
    int (*function)(int);
    int number;
    const char *name;
    int other  = 0; // an argument with a result of its own
    int result = 0;
};

void PrintTo(const Case &test, std::ostream *stream)
{
    *stream << test.name;
}

std::atomic<void *> original;

// Calls code of which the compiler must not conclude anything.
int call(const void *code, int argument = 20)
{
    void *volatile made = const_cast<void *>(code);
    return reinterpret_cast<int (*)(int)>(made)(argument);
}

int hook(int argument)
{
    return 1000 + call(original.load(), argument);
}

const char *patch(void *function, std::atomic<void *> &to = original)
{
    return patch_function(function, reinterpret_cast<void *>(hook), to);
}

class PatchPrologue : public testing::TestWithParam<Case> {};

TEST_P(PatchPrologue, HookAndOriginalWork)
{
    const Case test      = GetParam();
    void *const function = reinterpret_cast<void *>(test.function);

    ASSERT_EQ(test.number + 20, call(function));
    ASSERT_STREQ(nullptr, patch(function));
    EXPECT_EQ(test.number + 1020, call(function));
    if (test.result != 0) {
        EXPECT_EQ(test.result + 1000, call(function, test.other));
    }
    EXPECT_EQ(reinterpret_cast<const void *>(hook), patched_target(function));

    // A second hook on top of the first, as another tool would set it.
    int (*second)(int) = [](int argument) {
        return 5000 + call(original.load(), argument);
    };
    std::atomic<void *> below{nullptr};
    ASSERT_STREQ(
        nullptr,
        patch_function(function, reinterpret_cast<void *>(second), below));
    EXPECT_EQ(test.number + 5020, call(function));
    EXPECT_EQ(test.number + 1020, call(below.load()));
}

void expect_refused(int (*refused)(int), const char *why)
{
    void *const function = reinterpret_cast<void *>(refused);
    std::atomic<void *> untouched{nullptr};
    uint8_t before[16];
    memcpy(before, function, sizeof(before));

    EXPECT_STREQ(why, patch(function, untouched));
    EXPECT_EQ(nullptr, untouched.load());
    EXPECT_EQ(0, memcmp(before, function, sizeof(before)));
    EXPECT_EQ(nullptr, patched_target(function));
}

// A reservation as CUDA makes it: out of a jump's reach around the function,
// without a gap.
class PatchFar : public testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_EQ(0, mprotect(function_, far_page, any_access));
        memcpy(function_, plain_function, sizeof(plain_function));
        __builtin___clear_cache(reinterpret_cast<char *>(function_),
                                reinterpret_cast<char *>(function_ + 16));
        ASSERT_STREQ("no executable memory near it", patch(function_));
        ASSERT_EQ(21, call(function_));
    }

    // Never unmapped: the moved code stays in its gap.
    void *const reserved_ =
        mmap(nullptr, 3 * near_distance, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *function_ =
        static_cast<uint8_t *>(reserved_) + near_distance / 2 * 3;
};

TEST_F(PatchFar, TheOnlyGapIsFound)
{
    ASSERT_EQ(0, munmap(function_ + near_distance / 4 * 3, 3 << 20));
    ASSERT_STREQ(nullptr, patch(function_));
    EXPECT_EQ(1021, call(function_));
}

// Such a gap remains if the kernel put a small library between reservations.
TEST_F(PatchFar, ASmallGapIsBetterThanNone)
{
    ASSERT_EQ(0, munmap(function_ - 7 * far_page, far_page));
    ASSERT_STREQ(nullptr, patch(function_));
    EXPECT_EQ(1021, call(function_));
}

} // namespace
} // namespace ucx_ib_dmabuf
