// SPDX-License-Identifier: BSD-3-Clause
//
// The tests of patched functions that are the same for each architecture.
#pragma once

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <ucm/code_patch.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

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

} // namespace
} // namespace ucx_ib_dmabuf
