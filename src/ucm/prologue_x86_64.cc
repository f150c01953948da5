// SPDX-License-Identifier: BSD-3-Clause
#if defined(__x86_64__)

#include "prologue_x86_64.h"
#include <algorithm>
#include <iterator>

namespace ucx_ib_dmabuf::ucm {
namespace {

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

class writer {
public:
    writer(uint8_t *to, size_t capacity) : start_(to), capacity_(capacity) {}

    size_t length() const { return length_; }

    // Sets the disp32 before 'end' so that it leads to 'target' in the output.
    void lead_to(size_t end, size_t target)
    {
        const auto value = int32_t(int64_t(target) - int64_t(end));
        memcpy(start_ + end - sizeof(value), &value, sizeof(value));
    }

    bool bytes(const void *data, size_t size)
    {
        if (length_ + size > capacity_) {
            return false;
        }
        memcpy(start_ + length_, data, size);
        length_ += size;
        return true;
    }

    // Writes a disp32 that leads to 'target', 'after' bytes before the next
    // instruction.
    bool displacement(const uint8_t *target, size_t after = 0)
    {
        const int64_t value = target - (start_ + length_ + 4 + after);
        const auto narrow   = int32_t(value);
        return (value == narrow) && bytes(&narrow, sizeof(narrow));
    }

    // Writes a jump of any length: another tool's patch may lead far away.
    bool jump(const uint8_t *target)
    {
        const uint8_t near = 0xe9, far[] = {0xff, 0x25, 0, 0, 0, 0};
        const size_t before = length_;
        if (bytes(&near, 1) && displacement(target)) {
            return true;
        }
        length_ = before;
        return bytes(far, sizeof(far)) && bytes(&target, sizeof(target));
    }

private:
    uint8_t *start_;
    size_t capacity_;
    size_t length_ = 0;
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
        return to.jump(target);
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

// A copied instruction.
struct move {
    size_t from, to, to_end;
    int64_t target; // its target as offset in the original code; -1: none
};
constexpr size_t max_moves = 16;

// Makes jumps into the copied code lead into the copy, as another tool may
// overwrite the original. (Such a jump is near: its displacement has 32 bits.)
void redirect(const move *begin, const move *end, writer &to)
{
    for (const move *i = begin; i != end; ++i) {
        for (const move *j = begin; j != end; ++j) {
            if (int64_t(j->from) == i->target) {
                to.lead_to(i->to_end, j->to);
            }
        }
    }
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

const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          prologue_copy &copy)
{
    writer out(to, capacity);
    move moves[max_moves], *next = moves;
    bool ended = false;

    copy = {0, 0};
    while ((copy.from_length < (ended ? min_size : wanted_size)) &&
           (next != std::end(moves))) {
        const size_t done      = copy.from_length;
        const instruction insn = decode(from + done);
        const int64_t target   = is_relative(insn)
                                     ? int64_t(done + insn.length) + insn.relative
                                     : -1;
        if ((target >= 0) && (target < int64_t(min_size))) {
            return "it jumps into its first instructions";
        }
        const char *error = obstacle(insn, from[done], ended);
        if ((error == nullptr) && !copy_one(insn, from + done, out)) {
            error = "its first instructions cannot be moved";
        }
        if (error != nullptr) {
            if (done < min_size) {
                return error;
            }
            break;
        }
        *next++ = {done, copy.to_length, out.length(), target};
        ended   = ended || (insn.leads == flow::end) ||
                (insn.leads == flow::jump_rel);
        copy = {done + insn.length, out.length()};
    }
    redirect(moves, next, out);
    return nullptr;
}

} // namespace ucx_ib_dmabuf::ucm

#endif
