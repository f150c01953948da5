// SPDX-License-Identifier: BSD-3-Clause
//
// Functions with many prologues are patched and called, and so are the
// instructions that were moved away.
#include <common/breakpoint.h>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucm/machine_code.h>

#if defined(__x86_64__)

// Returns 1 more than its argument.
constexpr unsigned char plain_function[] = {0x55, 0x48, 0x89, 0xe5, 0x8d,
                                            0x47, 0x01, 0x5d, 0xc3};
#include "patched.h"

// Each returns its argument plus a number of its own.
#define FUNCTION(_name, _code)                                                 \
    asm(".pushsection .text\n.p2align 4\n" #_name ":\n" _code "\n"             \
        ".p2align 4\n.popsection\n");                                          \
    extern "C" int _name(int)

asm(".pushsection .data\n"
    "patch_four: .long 4\n"
    "patch_zero: .long 0\n"
    ".popsection\n");
FUNCTION(patch_helper, "mov $6, %eax\n ret");

FUNCTION(begins_endbr, "endbr64\n push %rbp\n mov %rsp, %rbp\n"
                       "lea 1(%rdi), %eax\n pop %rbp\n ret");
FUNCTION(begins_lea, "lea patch_four(%rip), %rax\n mov (%rax), %eax\n"
                     "add %edi, %eax\n ret");
FUNCTION(begins_cmp, "cmpl $0, patch_zero(%rip)\n jne 1f\n"
                     "lea 5(%rdi), %eax\n ret\n 1: xor %eax, %eax\n ret");
FUNCTION(begins_call, "call patch_helper\n add %edi, %eax\n ret");
FUNCTION(begins_branch, "test %edi, %edi\n js 1f\n lea 7(%rdi), %eax\n ret\n"
                        "1: mov $-7, %eax\n ret");
FUNCTION(begins_far_branch, "test %edi, %edi\n js 1f\n lea 8(%rdi), %eax\n"
                            "ret\n .skip 200, 0x90\n 1: mov $-8, %eax\n ret");
FUNCTION(patch_target, "lea 12(%rdi), %eax\n ret");
FUNCTION(begins_jump, "jmp patch_target");
FUNCTION(begins_canary, "mov %fs:0x28, %rax\n lea 9(%rdi), %eax\n ret");
// Begins with a comparison that UCX knows from the driver. The variant _probed
// is the code that a uprobe runs elsewhere before it continues.
#define BEGINS_COMPARING(_name)                                                \
    FUNCTION(_name, "cmpl $500, patch_zero(%rip)\n jne 1f\n"                   \
                    "xor %eax, %eax\n ret\n"                                   \
                    "1: lea 12(%rdi), %eax\n ret");                            \
    FUNCTION(_name##_probed, "cmpl $500, patch_zero(%rip)\n jmp " #_name "+10" \
                             "\n")
BEGINS_COMPARING(begins_comparing);
BEGINS_COMPARING(has_a_uprobe);
FUNCTION(is_short, "lea (%rdi), %eax\n ret\n nop\n nop");

// These cannot be patched.
FUNCTION(is_too_short, "ret\n push %rax\n push %rax\n push %rax\n ret");
FUNCTION(jumps_back, "1: dec %edi\n jnz 1b\n mov %edi, %eax\n ret");
FUNCTION(is_unknown, "jrcxz 1f\n 1: mov %edi, %eax\n nop\n ret");

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

constexpr size_t page = 4096;

// A page of code that begins with a function, and then has only this byte.
struct code_page {
    code_page(const std::string &function, int fill)
        : code(static_cast<uint8_t *>(mmap(nullptr, page, any_access,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
    {
        memset(code, fill, page);
        memcpy(code, function.data(), function.size());
    }
    ~code_page() { munmap(code, page); }
    code_page(const code_page &)            = delete;
    code_page &operator=(const code_page &) = delete;

    uint8_t *const code;
};

INSTANTIATE_TEST_SUITE_P(
    Prologues, PatchPrologue,
    testing::Values(Case{begins_endbr, 1, "endbr"},

                    Case{begins_lea, 4, "lea"}, Case{begins_cmp, 5, "cmp"},
                    Case{begins_call, 6, "call"},
                    Case{begins_branch, 7, "branch", -20, -7},
                    Case{begins_jump, 12, "jump"},
                    Case{begins_far_branch, 8, "far_branch", -20, -8},
                    Case{begins_canary, 9, "canary"},

                    Case{is_short, 0, "short"},
                    Case{begins_comparing, 12, "comparing"}),
    [](const auto &test) { return test.param.name; });

TEST(PatchRefused, WhatCannotBeMoved)
{
    expect_refused(is_too_short, "it is shorter than a jump");
    expect_refused(jumps_back, "it jumps into its first instructions");
    expect_refused(is_unknown, "its first instructions are not known here");
}

// A breakpoint in the bytes to overwrite prevents the patch; one behind them
// only ends the copy.
TEST(PatchRefused, Breakpoint)
{
    for (size_t at = 0; at < 6; ++at) {
        uint8_t memory[64];
        prologue_copy copy;
        memset(memory, 0x90, sizeof(memory));
        memory[at] = 0xcc;
        EXPECT_EQ(at < 5, copy_prologue(memory, 5, 13, &memory[32], 32, copy) !=
                              nullptr);
        EXPECT_EQ(at, copy.from_length);
    }
}

// A uprobe that is set later replaces the first byte by a breakpoint, and runs
// the file's first instruction elsewhere. Its removal restores the byte.
TEST(PatchUprobe, ComesAndGoes)
{
    void *const code   = reinterpret_cast<void *>(has_a_uprobe);
    void *const probed = reinterpret_cast<void *>(has_a_uprobe_probed);

    ASSERT_STREQ(nullptr, patch(code));
    watch_patch(code, "overwritten");
    EXPECT_EQ(1032, call(code));
    {
        const test::breakpoint uprobe(code);
        EXPECT_EQ(1032, call(probed));
        EXPECT_EQ(reinterpret_cast<const void *>(hook), patched_target(code));
        EXPECT_STREQ(nullptr, overwritten_patch());
    }
    EXPECT_EQ(1032, call(code));
    const test::breakpoint other(static_cast<char *>(code) + 10);
    EXPECT_STREQ("overwritten", overwritten_patch());
}

// A displacement has 32 bits, so a target at the limit of its reach is out of
// reach for a copy at a lower address.
TEST(PatchRefused, CopyTooFar)
{
    uint8_t memory[64]   = {};
    const uint8_t call[] = {0xe8, 0xff, 0xff, 0xff, 0x7f};
    prologue_copy copy;

    memcpy(&memory[32], call, sizeof(call));
    EXPECT_STREQ("its first instructions cannot be moved",
                 copy_prologue(&memory[32], 5, 5, memory, 32, copy));
    memcpy(memory, call, sizeof(call));
    EXPECT_STREQ(nullptr, copy_prologue(memory, 5, 5, &memory[32], 32, copy));
    EXPECT_STREQ("its first instructions cannot be moved",
                 copy_prologue(memory, 5, 5, &memory[32], 4, copy));
}

// A moved jump can reach any target: another tool's hook may be 2 GiB away, in
// the other direction than the copy.
TEST(PatchMoves, JumpOutOfReach)
{
    uint8_t memory[64]   = {};
    const uint8_t jump[] = {0xe9, 0xff, 0xff, 0xff, 0x7f};
    uintptr_t target;
    prologue_copy copy;

    memcpy(&memory[32], jump, sizeof(jump));
    ASSERT_STREQ(nullptr, copy_prologue(&memory[32], 5, 5, memory, 32, copy));
    EXPECT_EQ(5u, copy.from_length);
    EXPECT_EQ(14u, copy.to_length);
    EXPECT_EQ(0, memcmp(memory, "\xff\x25\0\0\0\0", 6));
    memcpy(&target, memory + 6, sizeof(target));
    EXPECT_EQ(uintptr_t(&memory[32]) + 5 + 0x7fffffff, target);
    EXPECT_STREQ("its first instructions cannot be moved",
                 copy_prologue(&memory[32], 5, 5, memory, 13, copy));
}

// A function that another tool has patched, with a jump to patch_target. The
// bytes behind the jump are pieces of instructions.
TEST(PatchOnTop, ReachesWhatWasThere)
{
    const auto *target = reinterpret_cast<void *>(patch_target);
    for (std::string jump :
         {// mov $address, %rax; jmp *%rax
          std::string("\x48\xb8"
                      "ADDRESS.\xff\xe0"),
          // mov $address, %r11; jmp *%r11
          std::string("\x49\xbb"
                      "ADDRESS.\x41\xff\xe3"),
          // jmp over 3 bytes; jmp *4(%rip)
          std::string("\xe9\x03\0\0\0...\xff\x25\x04\0\0\0....ADDRESS.", 26)}) {
        memcpy(&jump[jump.find("ADDRESS.")], &target, sizeof(target));
        const code_page made(jump, 0x06); // not an instruction
        ASSERT_EQ(32, call(made.code));
        EXPECT_EQ(target, patched_target(made.code));

        ASSERT_STREQ(nullptr, patch(made.code));
        EXPECT_EQ(reinterpret_cast<const void *>(hook),
                  patched_target(made.code));
        EXPECT_EQ(1032, call(made.code));
    }
}

// Another tool patches the same function later, with a longer jump, and calls
// our hook. Our way back must not lead into the bytes that it wrote.
TEST(PatchBelow, AnotherToolPatchesOnTop)
{
    // push %rax; mov $other, %rax; xchg %rax, (%rsp); ret
    uint8_t jump[] = {0x50, 0x48, 0xb8, 0,    0,    0,    0,    0,
                      0,    0,    0,    0x48, 0x87, 0x04, 0x24, 0xc3};
    static const uint8_t *below;
    int (*other)(int) = [](int argument) {
        return 7000 + call(below, argument);
    };
    memcpy(jump + 3, &other, sizeof(other));
    for (const std::string &function :
         {// endbr64; push %rbp; mov %rsp, %rbp; lea 1(%rdi), %eax; pop %rbp;
          // ret
          std::string("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x8d\x47\x01\x5d"
                      "\xc3"),
          // mov $1, %eax; add %edi, %eax; 6 nop; lea 0(%rax), %eax; ret
          std::string("\xb8\x01\0\0\0\x01\xf8\x90\x90\x90\x90\x90\x90\x8d"
                      "\x40\0\xc3",
                      17)}) {
        const code_page made(function, 0xcc);
        uint8_t *const code = made.code;

        ASSERT_STREQ(nullptr, patch(code));
        EXPECT_EQ(1021, call(code));
        ASSERT_EQ(0xe9, code[0]);
        below = code + 5 + read_operand<int32_t>(code + 1);

        ASSERT_EQ(0, mprotect(code, page, any_access));
        memcpy(code, jump, sizeof(jump));
        EXPECT_EQ(8021, call(code));
    }
}

// Hooks share a page: a search for a place reads all mappings of the process.
TEST(Patch, MovedCodeLiesTogether)
{
    std::atomic<void *> first{nullptr}, second{nullptr};
    const code_page one("\x55\x90\x90\x90\x90\xc3", 0xcc);
    const code_page other("\x55\x90\x90\x90\x90\xc3", 0xcc);

    ASSERT_STREQ(nullptr, patch(one.code, first));
    ASSERT_STREQ(nullptr, patch(other.code, second));
    EXPECT_EQ(96, uintptr_t(second.load()) - uintptr_t(first.load()));
}

} // namespace
} // namespace ucx_ib_dmabuf

#endif
