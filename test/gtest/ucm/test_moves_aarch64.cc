// SPDX-License-Identifier: BSD-3-Clause
//
// Copies of each instruction that depends on its address, with all kinds of
// operands, have the same effect.
#if defined(__aarch64__)

#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucm/machine_code.h>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

// Memory for code, at both ends of a range that a jump does not cross.
class far_apart {
public:
    static constexpr size_t page = 1 << 16, apart = size_t{256} << 20;

    far_apart()
        : memory_(static_cast<uint8_t *>(
              mmap(nullptr, apart, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)))
    {
        for (uint8_t *part : {low(), near(), high()}) {
            mprotect(part, page, PROT_READ | PROT_WRITE | PROT_EXEC);
        }
    }
    ~far_apart() { munmap(memory_, apart); }
    far_apart(const far_apart &)            = delete;
    far_apart &operator=(const far_apart &) = delete;

    uint8_t *low() const { return memory_; }
    uint8_t *near() const { return memory_ + (size_t{100} << 20); }
    uint8_t *high() const { return memory_ + apart - page; }

private:
    uint8_t *const memory_;
};

// Runs code with an argument, and flags if wanted. The code may change all
// registers but those of the stack.
uint64_t run(const void *code, uint64_t argument, uint64_t flags)
{
    register uint64_t x0 asm("x0")      = argument;
    register const void *x15 asm("x15") = code;
    register uint64_t x14 asm("x14")    = flags;

    asm volatile("msr nzcv, x14\n adr x9, 1f\n blr x15\n1:\n"
                 : "+r"(x0), "+r"(x15), "+r"(x14)
                 :
                 : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10",
                   "x11", "x12", "x13", "x16", "x17", "x19", "x20", "x21",
                   "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0",
                   "v1", "v31", "cc", "memory");
    return x0;
}

constexpr uint32_t ret = 0xd65f03c0;
constexpr uint32_t mov_x0(uint32_t reg)
{
    return 0xaa0003e0 | (reg << 16);
}
constexpr uint32_t movz_x0(uint32_t value)
{
    return 0xd2800000 | (value << 5);
}

// Writes code, and a copy of its first instruction in another place.
class PatchMoves : public testing::Test {
protected:
    struct arguments {
        uint64_t value = 0, flags = 0;
    };

    void expect_same(const std::vector<uint32_t> &code,
                     const std::vector<arguments> &all = {{}})
    {
        char *const at = reinterpret_cast<char *>(memory_.near());
        char *const to = reinterpret_cast<char *>(memory_.low());
        prologue_copy copy;

        memcpy(at, code.data(), code.size() * 4);
        __builtin___clear_cache(at, at + 64);
        ASSERT_STREQ(nullptr, copy_prologue(memory_.near(), 4, 4, memory_.low(),
                                            64, copy))
            << std::hex << code[0];
        ASSERT_EQ(4u, copy.from_length);
        write_return(memory_.low() + copy.to_length, memory_.near() + 4);
        __builtin___clear_cache(to, to + 64);
        for (const arguments &with : all) {
            EXPECT_EQ(run(at, with.value, with.flags),
                      run(to, with.value, with.flags))
                << std::hex << code[0] << " " << with.value << " "
                << with.flags;
        }
        for (size_t capacity = 0; capacity < copy.to_length; ++capacity) {
            EXPECT_STREQ("its first instructions cannot be moved",
                         copy_prologue(memory_.near(), 4, 4, memory_.low(),
                                       capacity, copy));
        }
    }

    // Registers that run() may change; 31 is the zero register.
    static std::vector<uint32_t> registers()
    {
        std::vector<uint32_t> all;
        for (uint32_t reg = 0; reg < 29; ++reg) {
            if (reg != 18) { // the platform's
                all.push_back(reg);
            }
        }
        all.push_back(31);
        return all;
    }

    // Two results, by which way a branch takes: over 3 instructions.
    static std::vector<uint32_t> branch(uint32_t code)
    {
        return {code, movz_x0(1), ret, 0, movz_x0(2), ret};
    }

    const far_apart memory_;
};

TEST_F(PatchMoves, Addresses)
{
    for (const uint32_t reg : registers()) {
        for (const uint32_t low : {0u, 1u, 2u, 3u}) {
            for (const uint32_t high : {0u, 5u, 0x3ffffu, 0x40000u, 0x7ffffu}) {
                const uint32_t operands = (low << 29) | (high << 5) | reg;
                for (const uint32_t opcode : {0x10000000u, 0x90000000u}) {
                    if ((opcode == 0x90000000u) && (high >> 18 != high >> 17)) {
                        continue; // 4 GiB away, of the copy more
                    }
                    expect_same({opcode | operands, mov_x0(reg), ret});
                }
            }
        }
    }
}

TEST_F(PatchMoves, Literals)
{
    constexpr uint32_t behind        = 4 << 5; // instructions
    const std::vector<uint32_t> rest = {ret,        0,          0x89abcdef,
                                        0xfedcba98, 0x12345678, 0x9abcdef0};
    const auto with                  = [&](uint32_t code, uint32_t result) {
        std::vector<uint32_t> all{code, result};
        all.insert(all.end(), rest.begin(), rest.end());
        return all;
    };

    for (const uint32_t reg : registers()) {
        for (const uint32_t size : {0u, 1u, 2u, 3u}) { // w, x, sw, prefetch
            // A prefetch has no register: the field says which kind.
            const uint32_t result = (size == 3) ? movz_x0(1) : mov_x0(reg);
            expect_same(with(0x18000000 | (size << 30) | behind | reg, result));
        }
    }
}

TEST_F(PatchMoves, Jumps)
{
    expect_same(branch(0x14000004));
    // The call returns behind the copy, which continues in the function.
    expect_same({0x94000004, 0xd65f0120, 0, 0, 0x91000400, ret}, {{5}});
}

TEST_F(PatchMoves, ConditionalBranches)
{
    std::vector<arguments> flags;
    for (uint64_t nzcv = 0; nzcv < 16; ++nzcv) {
        flags.push_back({0, nzcv << 28});
    }
    for (uint32_t condition = 0; condition < 16; ++condition) {
        expect_same(branch(0x54000080 | condition), flags);
    }
}

TEST_F(PatchMoves, CompareAndTest)
{
    const std::vector<arguments> values = {
        {0}, {1}, {uint64_t{1} << 32}, {uint64_t{1} << 63}, {~uint64_t{0}}};

    for (const uint32_t opposite : {0u, 1u << 24}) {
        for (const uint32_t wide : {0u, 1u << 31}) {
            expect_same(branch(0x34000080 | opposite | wide), values);
            expect_same(branch(0x3400009f | opposite | wide), values);
            for (uint32_t bit = 0; bit < 32; ++bit) {
                expect_same(branch(0x36000080 | opposite | wide | (bit << 19)),
                            values);
            }
        }
    }
}

// Instructions that must follow each other stay together, where they were.
TEST_F(PatchMoves, GroupsStayInPlace)
{
    constexpr uint32_t nop = 0xd503201f;
    for (const uint32_t first : {0x0420bc20u, 0x04d13c20u, 0x04102020u,
                                 0x19010440u, 0x1d010440u, 0x19c10440u}) {
        const uint32_t code[] = {nop, nop, first, nop};
        prologue_copy copy;
        memcpy(memory_.near(), code, sizeof(code));
        EXPECT_STREQ(nullptr, copy_prologue(memory_.near(), 4, 16,
                                            memory_.low(), 64, copy));
        EXPECT_EQ(8u, copy.from_length) << std::hex << first;
    }
}

// The copy would be more than 128 MiB, or 4 GiB, from the operand.
TEST_F(PatchMoves, OperandsOutOfReach)
{
    prologue_copy copy;
    for (const uint32_t code : {0x14000004u, 0x94000004u, 0x54000080u,
                                0x34000080u, 0x36000080u, 0x907fffe0u}) {
        memcpy(memory_.high(), &code, sizeof(code));
        EXPECT_STREQ(
            "its first instructions cannot be moved",
            copy_prologue(memory_.high(), 4, 4, memory_.low(), 64, copy))
            << std::hex << code;
    }
}

} // namespace
} // namespace ucx_ib_dmabuf

#endif
