// SPDX-License-Identifier: BSD-3-Clause
#if defined(__x86_64__)

#include "machine_code.h"
#include <algorithm>

namespace ucx_ib_dmabuf::ucm {
namespace {

// A patch that UCX is writing.
constexpr uint8_t jump_to_itself[2] = {0xeb, 0xfe};

// mov $address, %rax; jmp *%rax, or the same by %r11.
bool jumps_by_register(const uint8_t *p)
{
    return ((p[0] == 0x48) && (p[1] == 0xb8) && (p[10] == 0xff) &&
            (p[11] == 0xe0)) ||
           ((p[0] == 0x49) && (p[1] == 0xbb) && (p[10] == 0x41) &&
            (p[11] == 0xff) && (p[12] == 0xe3));
}

enum class flow {
    next,       // continues with the next instruction
    call_rel,   // e8 disp32
    jump_rel,   // eb disp8, e9 disp32
    branch_rel, // 7x disp8, 0f 8x disp32
    end,        // ret, int3, jmp *: the next instruction is not reached
    nop,        // no effect: may pad the end of a function
    unknown
};

struct instruction {
    size_t length     = 0;
    flow leads        = flow::unknown;
    size_t rip_offset = 0; // offset of a %rip-relative disp32, 0: none
    uint8_t condition = 0; // of branch_rel
    int64_t relative  = 0; // displacement of calls, jumps and branches
};

// The operands of an opcode.
struct operands {
    char letter;   // in the tables of opcodes
    bool modrm;    // with its SIB and displacement
    int immediate; // bytes
    flow leads = flow::next;
};
constexpr int word_or_long = -1; // 2 with the prefix 66, else 4
constexpr int up_to_quad   = -2; // 8 with REX.W, else as word_or_long

constexpr operands all_operands[] = {
    {'.', false, 0, flow::unknown},
    {'-', false, 0},
    {'m', true, 0},
    {'b', false, 1},
    {'B', true, 1},
    {'z', false, word_or_long},
    {'Z', true, word_or_long},
    {'v', false, up_to_quad},  // MOV
    {'t', true, 1},            // f6: only TEST has an immediate
    {'T', true, word_or_long}, // f7
    {'i', true, 0},            // ff: JMP ends the flow
    {'n', false, 0, flow::nop},
    {'N', true, 0, flow::nop},
    {'r', false, 0, flow::end}, // RET, INT3
    {'R', false, 2, flow::end},
    {'c', false, 1, flow::branch_rel},
    {'C', false, 4, flow::branch_rel},
    {'j', false, 1, flow::jump_rel},
    {'J', false, 4, flow::jump_rel},
    {'L', false, 4, flow::call_rel},
};
constexpr char one_byte[] = "mmmmbz..mmmmbz.." // 00
                            "mmmmbz..mmmmbz.."
                            "mmmmbz..mmmmbz.."
                            "mmmmbz..mmmmbz.."
                            "................" // 40
                            "----------------"
                            "...m....zZbB...."
                            "cccccccccccccccc"
                            "BZ.Bmmmmmmmm.m.." // 80
                            "n---------......"
                            "........bz......"
                            "bbbbbbbbvvvvvvvv"
                            "BBRr..BZ.-..r..." // c0
                            "mmmm............"
                            "........LJ.j...."
                            "......tT......mi";
constexpr char two_byte[] = "................" // 0f 00
                            "mmmmmmmmmmmmmmmN"
                            "........mmmmmmmm"
                            "................"
                            "mmmmmmmmmmmmmmmm" // 0f 40
                            "mmmmmmmmmmmmmmmm"
                            "mmmmmmmmmmmmmmmm"
                            "BBBBmmm.......mm"
                            "CCCCCCCCCCCCCCCC" // 0f 80
                            "mmmmmmmmmmmmmmmm"
                            "...mB......mB..m"
                            "mmmmmmmm..Bmmmmm"
                            "mmB.BBB........." // 0f c0
                            "mmmmmmmmmmmmmmmm"
                            "mmmmmmmmmmmmmmmm"
                            "mmmmmmmmmmmmmmm.";

operands operands_of(char letter, uint8_t modrm, bool wide, bool word)
{
    const unsigned digit = (modrm >> 3) & 7;
    operands found =
        *std::ranges::find(all_operands, letter, &operands::letter);

    if ((found.immediate == up_to_quad) && wide) {
        found.immediate = 8;
    } else if (found.immediate < 0) {
        found.immediate = word ? 2 : 4;
    }
    if (((letter == 't') || (letter == 'T')) && (digit > 1)) {
        found.immediate = 0;
    } else if ((letter == 'i') && ((digit == 4) || (digit == 5))) {
        found.leads = flow::end;
    } else if (((letter == 'J') || (letter == 'L')) && word) {
        found.leads = flow::unknown;
    }
    return found;
}

// Returns the length of ModRM, SIB and displacement.
size_t modrm_length(const uint8_t *p, bool &rip_relative)
{
    const unsigned mod = p[0] >> 6, rm = p[0] & 7;
    size_t length = 1;

    rip_relative = (mod == 0) && (rm == 5);
    if ((mod != 3) && (rm == 4)) {
        length += 1;
        if ((mod == 0) && ((p[1] & 7) == 5)) {
            length += 4;
        }
    }
    if (rip_relative || (mod == 2)) {
        length += 4;
    } else if (mod == 1) {
        length += 1;
    }
    return length;
}

instruction decode(const uint8_t *code)
{
    const uint8_t *p = code;
    bool wide = false, word = false, rip_relative = false;
    instruction insn;

    while ((*p == 0x66) || (*p == 0xf2) || (*p == 0xf3) || (*p == 0x64) ||
           (*p == 0x65) || (*p == 0x2e)) {
        word |= *p == 0x66;
        if (++p - code > 10) {
            return insn;
        }
    }
    if ((*p & 0xf0) == 0x40) {
        wide = (*p++ & 8) != 0;
    }
    const bool is_long   = *p == 0x0f;
    const uint8_t opcode = *(p += is_long);
    const operands with =
        operands_of((is_long ? two_byte : one_byte)[opcode], *++p, wide, word);
    insn.condition = opcode & 0xf;
    if (with.leads == flow::unknown) {
        return insn;
    }
    if (with.modrm) {
        const size_t length = modrm_length(p, rip_relative);
        insn.rip_offset     = rip_relative ? size_t(p - code) + 1 : 0;
        p += length;
    }
    if (with.immediate == 1) {
        insn.relative = int64_t{read_operand<int8_t>(p)};
    } else if (with.immediate == 4) {
        insn.relative = read_operand<int32_t>(p);
    }
    insn.length = size_t(p - code) + size_t(with.immediate);
    insn.leads  = with.leads;
    return insn;
}

// A jump to any target. Returns its end.
uint8_t *write_far_jump(uint8_t *at, const void *target)
{
    static const uint8_t opcode[6] = {0xff, 0x25};
    memcpy(at, opcode, sizeof(opcode));
    memcpy(at + sizeof(opcode), &target, sizeof(target));
    return at + far_jump_size;
}

// The copy of a prologue. These return false if it is full.
struct writer {
    bool bytes(const void *data, size_t added)
    {
        if (length + added > capacity) {
            return false;
        }
        memcpy(start + length, data, added);
        length += added;
        return true;
    }

    // Writes a disp32 that leads to `target`, `after` bytes before the next
    // instruction. Returns false, too, if that is too far.
    bool displacement(const uint8_t *target, size_t after = 0)
    {
        const int64_t value = target - (start + length + 4 + after);
        const auto narrow   = int32_t(value);
        return (value == narrow) && bytes(&narrow, sizeof(narrow));
    }

    // Another tool's patch may lead too far for a near jump.
    bool far_jump(const uint8_t *target)
    {
        uint8_t jump[far_jump_size];
        write_far_jump(jump, target);
        return bytes(jump, sizeof(jump));
    }

    uint8_t *start;
    size_t capacity, length = 0;
};

bool copy_one(const instruction &insn, const uint8_t *from, writer &to)
{
    const uint8_t *target  = from + insn.length + insn.relative;
    const uint8_t call     = 0xe8;
    const uint8_t branch[] = {0x0f, uint8_t(0x80 | insn.condition)};

    switch (insn.leads) {
    case flow::call_rel:
        return to.bytes(&call, 1) && to.displacement(target);
    case flow::jump_rel:
        return to.far_jump(target);
    case flow::branch_rel:
        return to.bytes(branch, 2) && to.displacement(target);
    default:
        break;
    }
    if (insn.rip_offset == 0) {
        return to.bytes(from, insn.length);
    }
    const size_t after = insn.length - insn.rip_offset - 4;
    const auto operand = read_operand<int32_t>(from + insn.rip_offset);
    return to.bytes(from, insn.rip_offset) &&
           to.displacement(from + insn.length + operand, after) &&
           to.bytes(from + insn.rip_offset + 4, after);
}

bool is_relative(const instruction &insn)
{
    return (insn.leads == flow::call_rel) || (insn.leads == flow::jump_rel) ||
           (insn.leads == flow::branch_rel);
}

// Returns why an instruction must not be overwritten; nullptr: it may be.
const char *obstacle(const instruction &insn, uint8_t first, bool ended)
{
    constexpr uint8_t breakpoint = 0xcc;
    if (!ended && (first == breakpoint)) {
        // A debugger would restore its saved byte in our jump.
        return "a breakpoint is set in its first instructions";
    }
    if (insn.leads == flow::unknown) {
        return "its first instructions are not known here";
    }
    // Behind the end of a short function only padding may be overwritten.
    return (ended && (insn.leads != flow::nop) && (first != breakpoint))
               ? "it is shorter than a jump"
               : nullptr;
}

} // namespace

// Behind a comparison at the start, which UCX knows from the driver's functions
// (ucm/bistro/bistro_x86_64.c), and which is copied, too. So uprobes work. They
// overwrite the first byte with a breakpoint, run the file's first instruction
// elsewhere, continue behind it, and finally restore the file's byte.
size_t jump_offset(const uint8_t *code)
{
    const bool compares =
        ((code[0] == 0x81) || (code[0] == 0xcc)) && (code[1] == 0x3d);
    return compares ? 10 : 0; // cmpl $immediate, displacement(%rip)
}

const void *jump_target(const uint8_t *code, bool behind)
{
    if (code[0] == 0xe9) {
        return code + near_jump_size + read_operand<int32_t>(code + 1);
    }
    if (jumps_by_register(code)) {
        return read_operand<const void *>(code + 2);
    }
    if (behind && (code[0] == 0xff) && (code[1] == 0x25)) {
        return read_operand<const void *>(code + 6 +
                                          read_operand<int32_t>(code + 2));
    }
    return (memcmp(code, jump_to_itself, sizeof(jump_to_itself)) == 0)
               ? code
               : nullptr;
}

// A store of eight bytes within a cache line replaces the instructions. Caches
// of instructions are coherent, so no other core has to be notified.
WRITES_CODE const char *store_near_jump(uint8_t *code, const uint8_t *before,
                                        const void *target)
{
    constexpr uintptr_t cache_line = 64;
    const uintptr_t at             = uintptr_t(code) % cache_line;
    const auto distance = int32_t(static_cast<const uint8_t *>(target) - code -
                                  ptrdiff_t(near_jump_size));

    if (at > cache_line - near_jump_size) {
        return "it begins at the end of a cache line";
    }
    const uintptr_t last_word = cache_line - sizeof(uint64_t);
    const size_t skipped      = (at > last_word) ? at - last_word : 0;
    auto *const word          = reinterpret_cast<uint64_t *>(code - skipped);
    auto found                = read_operand<uint64_t>(code - skipped);
    uint8_t bytes[sizeof(found)];
    memcpy(bytes, &found, sizeof(found));
    if (memcmp(bytes + skipped, before, near_jump_size) == 0) {
        bytes[skipped] = 0xe9;
        memcpy(bytes + skipped + 1, &distance, sizeof(distance));
        if (__atomic_compare_exchange_n(word, &found,
                                        read_operand<uint64_t>(bytes), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return nullptr;
        }
    }
    return "something else changed it meanwhile";
}

uint8_t *write_entry(uint8_t *at, const uint8_t *, const void *hook)
{
    return write_far_jump(at, hook);
}

uint8_t *write_return(uint8_t *at, const void *target)
{
    return write_far_jump(at, target);
}

int extra_protection(const uint8_t *)
{
    return 0;
}

const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          prologue_copy &copy)
{
    writer out{to, capacity};
    bool ended = false;

    copy = {0, 0};
    while (copy.from_length < (ended ? min_size : wanted_size)) {
        const size_t done      = copy.from_length;
        const instruction insn = decode(from + done);
        const int64_t target   = int64_t(done + insn.length) + insn.relative;
        const char *error      = obstacle(insn, from[done], ended);
        if (is_relative(insn) && (target >= 0)) {
            if (target < int64_t(min_size)) {
                return "it jumps into its first instructions";
            }
            wanted_size = std::min(wanted_size, size_t(target));
        }
        if ((error == nullptr) && !copy_one(insn, from + done, out)) {
            error = "its first instructions cannot be moved";
        }
        if (error != nullptr) {
            if (done < min_size) {
                return error;
            }
            break;
        }
        ended = ended || (insn.leads == flow::end) ||
                (insn.leads == flow::jump_rel);
        copy = {done + insn.length, out.length};
    }
    return nullptr;
}

} // namespace ucx_ib_dmabuf::ucm

#endif
