// SPDX-License-Identifier: BSD-3-Clause
//
// The same as test_patch.cc for aarch64: functions with many prologues.
#if defined(__aarch64__)

// Returns 1 more than its argument.
constexpr unsigned char plain_function[] = {0x00, 0x04, 0x00, 0x11,
                                            0xc0, 0x03, 0x5f, 0xd6};
#include "patched.h"
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucm/machine_code.h>
#include <unistd.h>
#include <vector>

// Each returns its argument plus a number of its own.
#define FUNCTION(_name, _code)                                                 \
    asm(".pushsection .text\n.globl " #_name "\n.p2align 4\n" #_name           \
        ":\n" _code "\n"                                                       \
        ".p2align 4\n.popsection\n");                                          \
    extern "C" int _name(int)

asm(".arch armv8.3-a\n");

FUNCTION(begins_bti, "hint #34\n add w0, w0, #1\n ret");
FUNCTION(begins_paciasp, "paciasp\n stp x29, x30, [sp, #-16]!\n"
                         "mov x29, sp\n add w0, w0, #2\n"
                         "ldp x29, x30, [sp], #16\n autiasp\n ret");
FUNCTION(begins_pacibsp, "pacibsp\n stp x29, x30, [sp, #-16]!\n"
                         "mov x29, sp\n add w0, w0, #2\n"
                         "ldp x29, x30, [sp], #16\n autibsp\n ret");
FUNCTION(second_vector, "nop\n ldr s0, 1f\n fmov w1, s0\n add w0, w0, w1\n"
                        "ret\n 1: .word 7");
FUNCTION(patch_target, "add w0, w0, #9\n ret");
FUNCTION(begins_jump, "b patch_target");
FUNCTION(begins_call, "mov x9, x30\n bl patch_target\n mov x30, x9\n ret");
// The next function may well jump to it.
FUNCTION(is_only_ret, "ret\n b is_only_ret");
// As an entry of a procedure linkage table.
FUNCTION(begins_as_plt, "adrp x16, 1f\n add x16, x16, #:lo12:1f\n"
                        "ldr x17, [x16]\n br x17\n .p2align 3\n"
                        "1: .xword patch_target");

// These cannot be patched.
FUNCTION(jumps_back, "cbnz w0, jumps_back\n ret");
FUNCTION(jumps_behind_pad, "hint #34\n 1: cbnz w0, 1b\n ret");
FUNCTION(is_unknown, ".word 0x1234\n ret");
FUNCTION(is_compare_and_branch, ".word 0x74000000\n ret");
FUNCTION(begins_vector, "ldr s0, 1f\n ret\n 1: .word 0");
FUNCTION(begins_memory_copy, ".word 0x1d010440, 0x1d410440, 0x1d810440\n ret");
FUNCTION(begins_movprfx, ".word 0x0420bc20, 0x04910002\n ret");
FUNCTION(begins_masked_movprfx, ".word 0x04912020, 0x04910002\n ret");
FUNCTION(is_stopped, "brk #5\n ret");

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

INSTANTIATE_TEST_SUITE_P(Prologues, PatchPrologue,
                         testing::Values(Case{begins_bti, 1, "bti"},
                                         Case{begins_paciasp, 2, "paciasp"},
                                         Case{begins_pacibsp, 2, "pacibsp"},
                                         Case{second_vector, 7, "vector"},
                                         Case{begins_jump, 9, "jump"},
                                         Case{begins_call, 9, "call"},
                                         Case{is_only_ret, 0, "ret"},
                                         Case{begins_as_plt, 9, "plt"}),
                         [](const auto &test) { return test.param.name; });

TEST(PatchRefused, WhatCannotBeMoved)
{
    expect_refused(jumps_back, "it jumps into its first instructions");
    expect_refused(jumps_behind_pad, "it jumps into its first instructions");
    for (const auto refused :
         {is_unknown, is_compare_and_branch, begins_vector, begins_memory_copy,
          begins_movprfx, begins_masked_movprfx}) {
        expect_refused(refused, "its first instructions are not known here");
    }
    expect_refused(is_stopped, "a breakpoint is set in its first instructions");
}

// Another tool patches the same function later, with a longer jump, and calls
// our hook. Our way back must not lead into the bytes that it wrote.
TEST(Patch, AnotherToolPatchesOnTop)
{
    constexpr uint32_t add_1 = 0x11000400, ret = 0xd65f03c0;
    const uint32_t function[] = {add_1, add_1, add_1, add_1, add_1, ret};
    auto *const code          = static_cast<uint32_t *>(mmap(
                 nullptr, far_page, any_access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    static const uint8_t *below;
    int (*other)(int) = [](int argument) {
        return 7000 + call(below, argument);
    };

    memcpy(code, function, sizeof(function));
    __builtin___clear_cache(reinterpret_cast<char *>(code),
                            reinterpret_cast<char *>(code + 6));
    ASSERT_STREQ(nullptr, patch(code));
    EXPECT_EQ(1025, call(code));
    ASSERT_EQ(0x14000000u, code[0] & 0xfc000000);
    below =
        reinterpret_cast<uint8_t *>(code) + ((int64_t{code[0]} << 38) >> 36);

    mprotect(code, far_page, any_access);
    code[0] = 0x5800004f; // ldr x15, 8 bytes behind; br x15
    code[1] = 0xd61f01e0;
    memcpy(code + 2, &other, sizeof(other));
    __builtin___clear_cache(reinterpret_cast<char *>(code),
                            reinterpret_cast<char *>(code + 4));
    EXPECT_EQ(8025, call(code));
    EXPECT_EQ(reinterpret_cast<const void *>(other), patched_target(code));

    // UCX's patch stands there first.
    std::atomic<void *> on_top{nullptr};
    ASSERT_STREQ(nullptr, patch(code, on_top));
    EXPECT_EQ(8025, call(on_top.load()));
}

// Behind a function there may be no memory, and UCX writes a jump to itself
// while it patches.
TEST(Patch, AtTheEndOfMemory)
{
    auto *const memory = static_cast<uint8_t *>(mmap(
        nullptr, 2 * far_page, any_access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(0, munmap(memory + far_page, far_page));
    // nop, which does not return; ret; b
    for (const uint32_t first : {0xd503201fu, 0xd65f03c0u, 0x14000000u}) {
        uint8_t *const code = memory + far_page - sizeof(first);
        memcpy(code, &first, sizeof(first));
        EXPECT_EQ((first >> 24 == 0x14) ? code : nullptr, patched_target(code));
        EXPECT_STREQ((first >> 24 == 0x14)
                         ? "it jumps into its first instructions"
                         : nullptr,
                     patch(code));
        mprotect(memory, far_page, any_access);
    }
}

// A library whose pages are guarded: calls by address must arrive at landing
// pads, also after the patch.
class PatchGuarded : public testing::TestWithParam<const char *> {
protected:
    void SetUp() override
    {
        library_ = dlopen(COMPILED_LIBRARIES "cc_2_pads.so", RTLD_NOW);
        ASSERT_NE(nullptr, library_) << dlerror();
        constexpr unsigned long knows_landing_pads = 1ul << 17;
        if ((getauxval(AT_HWCAP2) & knows_landing_pads) == 0) {
            GTEST_SKIP() << "this processor has no landing pads";
        }
    }

    void *library_ = nullptr;
};

TEST_P(PatchGuarded, StaysGuarded)
{
    auto *const function = static_cast<uint8_t *>(dlsym(library_, GetParam()));
    ASSERT_NE(nullptr, function);
    const auto call_behind = [&] { call(function + 8); };
    EXPECT_EXIT(call_behind(), testing::KilledBySignal(SIGILL), "");

    ASSERT_EQ(25, call(function));
    ASSERT_STREQ(nullptr, patch(function));
    EXPECT_EQ(1025, call(function));
    EXPECT_EXIT(call_behind(), testing::KilledBySignal(SIGILL), "");
}

INSTANTIATE_TEST_SUITE_P(Functions, PatchGuarded,
                         testing::Values("shape_leaf", "shape_caller"),
                         [](const auto &test) { return test.param; });

} // namespace
} // namespace ucx_ib_dmabuf

#endif
