// SPDX-License-Identifier: BSD-3-Clause
#if defined(__aarch64__)

#include "machine_code.h"
#include <algorithm>
#include <elf.h>
#include <iterator>
#include <link.h>
#include <span>
#include <sys/auxv.h>

// The encodings are those of the Arm Architecture Reference Manual, C4.1.
namespace ucx_ib_dmabuf::ucm {
namespace {

constexpr uint32_t nop        = 0xd503201f;
constexpr uint32_t breakpoint = 0xd4200000; // its operand may be any
// Landing pads, of functions that are called by address in guarded pages.
constexpr uint32_t bti_c  = 0xd503245f;
constexpr uint32_t bti_jc = 0xd50324df;
// They sign the return address with the stack pointer, and are landing pads.
constexpr uint32_t paciasp = 0xd503233f, autiasp = 0xd50323bf;
constexpr uint32_t pacibsp = 0xd503237f, autibsp = 0xd50323ff;
// A register that a linker's veneers use, so no function expects a value there.
constexpr uint32_t x16 = 16, zero_register = 31;

enum class kind {
    plain,       // the same effect at any address
    address,     // adr, adrp
    literal,     // ldr, ldrsw, prfm of memory near the instruction
    jump,        // b, bl
    conditional, // b.cond, cbz, cbnz
    test_bit,    // tbz, tbnz
    end,         // ret, br, and their kin
    unknown
};

constexpr struct {
    uint32_t mask, value;
    kind what;
} encodings[] = {
    {0x1f000000, 0x10000000, kind::address},
    {0x3f000000, 0x18000000, kind::literal},
    {0x3f000000, 0x1c000000, kind::unknown}, // to a vector: needs a register
    {0x7c000000, 0x14000000, kind::jump},
    {0xff000000, 0x54000000, kind::conditional},
    {0x7e000000, 0x34000000, kind::conditional},
    {0x7e000000, 0x36000000, kind::test_bit},
    {0xff600000, 0xd6200000, kind::plain}, // blr, blraaz
    {0xfe000000, 0xd6000000, kind::end},
    // These depend on their address, too, but no compiler uses them yet.
    {0x7e000000, 0x74000000, kind::unknown}, // cb<cc>
    {0xff800000, 0xf3800000, kind::unknown}, // autiasppc
    {0xff000000, 0x55000000, kind::unknown}, // retaasppc
    {0xffff8000, 0xdac18000, kind::unknown}, // paciasppc
    {0xffffffff, 0xd50324ff, kind::unknown}, // pacm
    {0xffff0000, 0x00000000, kind::unknown}, // udf
    // These must stand in front of certain others.
    {0xff3ee000, 0x04102000, kind::unknown}, // movprfx, some elements
    {0xfffffc00, 0x0420bc00, kind::unknown}, // movprfx
    {0x3b200c00, 0x19000400, kind::unknown}, // cpyp, setp, and their kin
};

kind kind_of(uint32_t code)
{
    for (const auto &each : encodings) {
        if ((code & each.mask) == each.value) {
            return each.what;
        }
    }
    return kind::plain;
}

// Reads a signed field of an instruction.
int64_t field(uint32_t code, unsigned low, unsigned bits)
{
    return int64_t(uint64_t{code} << (64 - low - bits)) >> (64 - bits);
}

// Returns whether a value, in units of the field, fits into it.
bool fits(int64_t value, unsigned bits)
{
    const int64_t half = int64_t{1} << (bits - 1);
    return (value >= -half) && (value < half);
}

uint32_t put(int64_t value, unsigned low, unsigned bits)
{
    return (uint32_t(value) & ((1u << bits) - 1)) << low;
}

int64_t distance(const uint8_t *from, const void *to)
{
    return int64_t(uintptr_t(to) - uintptr_t(from));
}

// b, or bl; the caller knows that it reaches.
uint32_t jump_to(const uint8_t *from, const void *to, uint32_t opcode)
{
    return opcode | put(distance(from, to) / 4, 0, 26);
}
constexpr uint32_t b = 0x14000000;

// The address that an instruction refers to.
const uint8_t *operand_of(uint32_t code, const uint8_t *at)
{
    const uintptr_t here = uintptr_t(at);
    uintptr_t target     = 0;

    switch (kind_of(code)) {
    case kind::address: {
        const int64_t value = field(code, 5, 19) * 4 + ((code >> 29) & 3);
        const bool is_page  = (code >> 31) != 0;
        target = is_page ? (here & ~uintptr_t{4095}) + uintptr_t(value * 4096)
                         : here + uintptr_t(value);
        break;
    }
    case kind::jump:
        target = here + uintptr_t(field(code, 0, 26) * 4);
        break;
    case kind::test_bit:
        target = here + uintptr_t(field(code, 5, 14) * 4);
        break;
    default: // literals and conditional branches
        target = here + uintptr_t(field(code, 5, 19) * 4);
    }
    return reinterpret_cast<const uint8_t *>(target);
}

bool is_branch(kind what)
{
    return (what == kind::jump) || (what == kind::conditional) ||
           (what == kind::test_bit);
}

// The copy of a prologue. These return false if it is full, or if an operand is
// out of reach.
struct writer {
    bool add(uint32_t code)
    {
        if (length + sizeof(code) > capacity) {
            return false;
        }
        memcpy(start + length, &code, sizeof(code));
        length += sizeof(code);
        return true;
    }

    bool add_jump(const uint8_t *target, uint32_t opcode)
    {
        const uint8_t *here = start + length;
        return fits(distance(here, target) / 4, 26) &&
               add(jump_to(here, target, opcode));
    }

    // adrp, add: 12 bits of the address are within the page.
    bool add_address(uint32_t reg, const uint8_t *value)
    {
        if (reg == zero_register) { // of add, it would be the stack pointer
            return add(nop);
        }
        const auto page     = int64_t(uintptr_t(value) >> 12);
        const int64_t pages = page - int64_t(uintptr_t(start + length) >> 12);
        const auto rest     = int64_t(uintptr_t(value) & 4095);
        return fits(pages, 21) &&
               add(0x90000000 | put(pages & 3, 29, 2) | put(pages >> 2, 5, 19) |
                   reg) &&
               add(0x91000000 | put(rest, 10, 12) | (reg << 5) | reg);
    }

    // ldr, ldrsw by the register that it loads.
    bool add_load(uint32_t code, const uint8_t *from)
    {
        constexpr uint32_t loads[] = {0xb9400000, 0xf9400000, 0xb9800000};
        const uint32_t size = code >> 30, reg = code & 31;

        if ((size == std::size(loads)) || (reg == zero_register)) {
            return add(nop); // a prefetch, or a load of nothing
        }
        return add_address(reg, from) && add(loads[size] | (reg << 5) | reg);
    }

    uint8_t *start;
    size_t capacity, length = 0;
};

bool copy_one(uint32_t code, const uint8_t *at, writer &to)
{
    constexpr uint32_t over_the_next = 2; // instructions
    const uint8_t *target            = operand_of(code, at);
    const bool is_always = ((code >> 24) == 0x54) && ((code & 14) == 14);

    switch (kind_of(code)) {
    case kind::address:
        return to.add_address(code & 31, target);
    case kind::literal:
        return to.add_load(code, target);
    case kind::jump:
        return to.add_jump(target, code & ~put(-1, 0, 26));
    case kind::conditional: { // the opposite jumps over a jump
        const uint32_t opposite = ((code >> 24) == 0x54) ? 1u : 1u << 24;
        return (is_always || to.add(((code & ~put(-1, 5, 19)) ^ opposite) |
                                    put(over_the_next, 5, 19))) &&
               to.add_jump(target, b);
    }
    case kind::test_bit:
        return to.add(((code & ~put(-1, 5, 14)) ^ (1u << 24)) |
                      put(over_the_next, 5, 14)) &&
               to.add_jump(target, b);
    default:
        return to.add(code);
    }
}

// Returns why an instruction must not be moved; nullptr: it may be.
const char *obstacle(uint32_t code)
{
    if ((code & 0xffe0001f) == breakpoint) {
        // A debugger would restore its saved instruction over our jump.
        return "a breakpoint is set in its first instructions";
    }
    return (kind_of(code) == kind::unknown)
               ? "its first instructions are not known here"
               : nullptr;
}

bool is_landing_pad(uint32_t code)
{
    return (code == bti_c) || (code == bti_jc) || (code == paciasp) ||
           (code == pacibsp);
}

} // namespace

// Behind a landing pad, where calls by address must arrive.
size_t jump_offset(const uint8_t *code)
{
    return is_landing_pad(read_operand<uint32_t>(code)) ? 4 : 0;
}

const void *jump_target(const uint8_t *code, bool behind)
{
    auto first = read_operand<uint32_t>(code);

    if (behind && ((first == autiasp) || (first == autibsp))) {
        first = read_operand<uint32_t>(code += 4);
    }
    if ((first & 0xfc000000) == b) {
        return operand_of(first, code);
    }
    // ldr by 8 bytes; br. Behind other instructions memory may end.
    const uint32_t reg = first & 31, br = 0xd61f0000 | (reg << 5);
    return ((first == (0x58000040 | reg)) &&
            (read_operand<uint32_t>(code + 4) == br))
               ? read_operand<const void *>(code + 8)
               : nullptr;
}

// One store: other threads see the old instruction or the jump. The manual
// promises that only for a few kinds of instruction (B2.2.5); UCX relies on it
// for all, as processors fetch aligned instructions whole.
WRITES_CODE const char *store_near_jump(uint8_t *code, const uint8_t *before,
                                        const void *target)
{
    auto found = read_operand<uint32_t>(before);

    if (!__atomic_compare_exchange_n(reinterpret_cast<uint32_t *>(code), &found,
                                     jump_to(code, target, b), false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        return "something else changed it meanwhile";
    }
    make_visible(code, near_jump_size);
    return nullptr;
}

// Undoes the signature of a return address: the hook is a function of its own.
uint8_t *write_entry(uint8_t *at, const uint8_t *code, const void *hook)
{
    const auto first = read_operand<uint32_t>(code);
    writer out{at, entry_size};

    if ((first == paciasp) || (first == pacibsp)) {
        out.add((first == paciasp) ? autiasp : autibsp);
    }
    out.add(0x58000040 | x16);        // ldr by 8 bytes
    out.add(0xd61f0000 | (x16 << 5)); // br
    memcpy(at + out.length, &hook, sizeof(hook));
    return at + entry_size;
}

// A direct jump, as only landing pads may follow others in guarded pages.
uint8_t *write_return(uint8_t *at, const void *target)
{
    const uint32_t code = jump_to(at, target, b);
    memcpy(at, &code, sizeof(code));
    return at + return_size;
}

const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          prologue_copy &copy)
{
    const size_t rest = 4096 - uintptr_t(from) % 4096; // memory may end then
    writer out{to, capacity};

    wanted_size = std::max(min_size, std::min(wanted_size, rest));
    copy        = {0, 0};
    while (copy.from_length < wanted_size) {
        const uint8_t *at = from + copy.from_length;
        const auto code   = read_operand<uint32_t>(at);
        const kind what   = kind_of(code);
        const int64_t target =
            is_branch(what) ? distance(from, operand_of(code, at)) : -1;
        const char *error = obstacle(code);
        if ((target >= 0) && (target < int64_t(min_size))) {
            return "it jumps into its first instructions";
        }
        if (target >= 0) {
            wanted_size = std::min(wanted_size, size_t(target));
        }
        if ((error == nullptr) && !copy_one(code, at, out)) {
            error = "its first instructions cannot be moved";
        }
        if (error != nullptr) {
            return (copy.from_length < min_size) ? error : nullptr;
        }
        copy = {copy.from_length + sizeof(code), out.length};
        if ((what == kind::end) || ((code & 0xfc000000) == b)) {
            break; // behind it may be anything
        }
    }
    return nullptr;
}

namespace {

// Whether the notes of a library say that all its functions that are called by
// address begin with landing pads.
bool has_landing_pads(const uint8_t *note, const uint8_t *end)
{
    constexpr uint32_t feature_1 = 0xc0000000; // GNU_PROPERTY_AARCH64_...
    constexpr uint32_t bti       = 1;
    constexpr ptrdiff_t header   = 16; // with the name "GNU"

    if ((end - note < header) ||
        (read_operand<uint32_t>(note + 8) != NT_GNU_PROPERTY_TYPE_0)) {
        return false;
    }
    for (note += header; end - note >= 12;
         note += 8 + (read_operand<uint32_t>(note + 4) + size_t{7}) / 8 * 8) {
        if (read_operand<uint32_t>(note) == feature_1) {
            return (read_operand<uint32_t>(note + 8) & bti) != 0;
        }
    }
    return false;
}

struct guard_search {
    uintptr_t code;
    bool guarded;
};

int look_at(dl_phdr_info *info, size_t, void *arg)
{
    auto *const search = static_cast<guard_search *>(arg);
    bool is_here = false, has_pads = false;

    for (const ElfW(Phdr) & part :
         std::span(info->dlpi_phdr, info->dlpi_phnum)) {
        const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
        const auto *bytes     = reinterpret_cast<const uint8_t *>(begin);
        if (part.p_type == PT_GNU_PROPERTY) {
            has_pads = has_landing_pads(bytes, bytes + part.p_memsz);
        }
        is_here |=
            (part.p_type == PT_LOAD) && (search->code - begin < part.p_memsz);
    }
    search->guarded |= is_here && has_pads;
    return int{is_here};
}

} // namespace

// The dynamic linker guards a library with landing pads if the processor knows
// them. No call tells a page's protection.
int extra_protection(const uint8_t *code)
{
    constexpr unsigned long knows_landing_pads = 1ul << 17; // HWCAP2_BTI
    constexpr int guarded                      = 0x10;      // PROT_BTI
    guard_search search{uintptr_t(code), false};

    if ((getauxval(AT_HWCAP2) & knows_landing_pads) != 0) {
        dl_iterate_phdr(look_at, &search);
    }
    return search.guarded ? guarded : 0;
}

} // namespace ucx_ib_dmabuf::ucm

#endif
