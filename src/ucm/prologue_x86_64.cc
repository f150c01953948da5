// SPDX-License-Identifier: BSD-3-Clause
#if defined(__x86_64__)

#include "ucm/prologue_x86_64.h"

#include <cstring>

namespace ucx_ib_dmabuf {
namespace {

enum class Flow {
    NEXT,       // goes on with the next instruction
    CALL_REL,   // e8 disp32
    JUMP_REL,   // eb disp8, e9 disp32
    BRANCH_REL, // 7x disp8, 0f 8x disp32
    END,        // ret, int3, jmp *: nothing that follows is reached
    NOP,        // does nothing: may pad the end of a function
    UNKNOWN
};

struct Instruction {
    size_t length     = 0;
    Flow flow         = Flow::UNKNOWN;
    size_t rip_offset = 0; // where a %rip-relative disp32 is, 0: nowhere
    uint8_t condition = 0; // of BRANCH_REL
    int64_t relative  = 0; // displacement of calls, jumps and branches
};

struct Opcode {
    bool modrm         = false;
    unsigned immediate = 0; // bytes
    Flow flow          = Flow::NEXT;
};

Opcode one_byte_opcode(uint8_t op, uint8_t next, bool wide, bool word)
{
    const unsigned imm = word ? 2 : 4;

    if (op < 0x40) {
        switch (op & 7) {
        case 4:
            return {false, 1};
        case 5:
            return {false, imm};
        case 6:
        case 7: // segment pushes and prefixes: not in 64-bit code
            return {false, 0, Flow::UNKNOWN};
        default:
            return {true, 0};
        }
    }
    if ((op >= 0x50) && (op <= 0x5f)) {
        return {false, 0};
    }
    if ((op >= 0x70) && (op <= 0x7f)) {
        return {false, 1, Flow::BRANCH_REL};
    }
    if (((op >= 0x84) && (op <= 0x8b)) || (op == 0x8d) || (op == 0x63)) {
        return {true, 0};
    }
    if (op == 0x90) {
        return {false, 0, Flow::NOP};
    }
    if (((op > 0x90) && (op <= 0x99)) || (op == 0xc9)) {
        return {false, 0};
    }
    if ((op >= 0xb0) && (op <= 0xb7)) {
        return {false, 1};
    }
    if ((op >= 0xb8) && (op <= 0xbf)) {
        return {false, wide ? 8 : imm};
    }
    switch (op) {
    case 0x68:
        return {false, imm};
    case 0x69:
    case 0x81:
    case 0xc7:
        return {true, imm};
    case 0x6a:
    case 0xa8:
        return {false, 1};
    case 0xa9:
        return {false, imm};
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        return {true, 1};
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xfe:
        return {true, 0};
    case 0xc2:
        return {false, 2, Flow::END};
    case 0xc3:
    case 0xcc:
        return {false, 0, Flow::END};
    case 0xe8:
        return {false, 4, word ? Flow::UNKNOWN : Flow::CALL_REL};
    case 0xe9:
        return {false, 4, word ? Flow::UNKNOWN : Flow::JUMP_REL};
    case 0xeb:
        return {false, 1, Flow::JUMP_REL};
    case 0xf6:
        return {true, ((next >> 3) & 7) < 2 ? 1u : 0u};
    case 0xf7:
        return {true, ((next >> 3) & 7) < 2 ? imm : 0u};
    case 0xff: // /4, /5: jmp *
        return {true, 0, ((next >> 4) & 3) == 2 ? Flow::END : Flow::NEXT};
    default:
        return {false, 0, Flow::UNKNOWN};
    }
}

Opcode two_byte_opcode(uint8_t op)
{
    if ((op >= 0x80) && (op <= 0x8f)) {
        return {false, 4, Flow::BRANCH_REL};
    }
    if (op == 0x1f) {
        return {true, 0, Flow::NOP};
    }
    if (((op >= 0x70) && (op <= 0x73)) || (op == 0xa4) || (op == 0xac) ||
        (op == 0xba) || (op == 0xc2) || ((op >= 0xc4) && (op <= 0xc6))) {
        return {true, 1};
    }
    if (((op >= 0x10) && (op <= 0x1e)) || ((op >= 0x28) && (op <= 0x2f)) ||
        ((op >= 0x40) && (op <= 0x6f)) || ((op >= 0x74) && (op <= 0x76)) ||
        (op == 0x7e) || (op == 0x7f) || ((op >= 0x90) && (op <= 0x9f)) ||
        (op == 0xa3) || (op == 0xab) || (op == 0xaf) ||
        ((op >= 0xb0) && (op <= 0xb7)) || ((op >= 0xbb) && (op <= 0xc1)) ||
        ((op >= 0xd0) && (op <= 0xfe))) {
        return {true, 0};
    }
    return {false, 0, Flow::UNKNOWN};
}

// Length of ModRM, SIB and displacement; sets where a %rip-relative one is.
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

Instruction decode(const uint8_t *code)
{
    const uint8_t *p = code;
    bool wide = false, word = false, rip_relative = false;
    Instruction insn;
    Opcode opcode;

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
    if (*p == 0x0f) {
        insn.condition = p[1] & 0xf;
        opcode         = two_byte_opcode(p[1]);
        p += 2;
    } else {
        insn.condition = p[0] & 0xf;
        opcode         = one_byte_opcode(p[0], p[1], wide, word);
        p += 1;
    }
    if (opcode.flow == Flow::UNKNOWN) {
        return insn;
    }
    if (opcode.modrm) {
        const size_t length = modrm_length(p, rip_relative);
        insn.rip_offset     = rip_relative ? size_t(p - code) + 1 : 0;
        p += length;
    }
    if (opcode.immediate == 1) {
        int8_t value;
        memcpy(&value, p, sizeof(value));
        insn.relative = int64_t{value};
    } else if (opcode.immediate == 4) {
        int32_t value;
        memcpy(&value, p, sizeof(value));
        insn.relative = value;
    }
    insn.length = size_t(p - code) + opcode.immediate;
    insn.flow   = opcode.flow;
    return insn;
}

class Writer {
public:
    Writer(uint8_t *to, size_t capacity) : start_(to), capacity_(capacity) {}

    size_t length() const { return length_; }

    // Let the disp32 before 'end' lead to a place in what was written.
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

    // A disp32 that leads to 'target', 'after' bytes before the next
    // instruction
    bool displacement(const uint8_t *target, size_t after = 0)
    {
        const int64_t value = target - (start_ + length_ + 4 + after);
        const auto narrow   = int32_t(value);
        return (value == narrow) && bytes(&narrow, sizeof(narrow));
    }

    // To wherever: what another tool has patched may lead far away.
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

bool copy_one(const Instruction &insn, const uint8_t *from, Writer &to)
{
    const uint8_t *target  = from + insn.length + insn.relative;
    const uint8_t call     = 0xe8;
    const uint8_t branch[] = {0x0f, uint8_t(0x80 | insn.condition)};

    switch (insn.flow) {
    case Flow::CALL_REL:
        return to.bytes(&call, 1) && to.displacement(target);
    case Flow::JUMP_REL:
        return to.jump(target);
    case Flow::BRANCH_REL:
        return to.bytes(branch, 2) && to.displacement(target);
    default:
        break;
    }
    if (insn.rip_offset == 0) {
        return to.bytes(from, insn.length);
    }

    const size_t after = insn.length - insn.rip_offset - 4;
    int32_t operand;
    memcpy(&operand, from + insn.rip_offset, sizeof(operand));
    return to.bytes(from, insn.rip_offset) &&
           to.displacement(from + insn.length + operand, after) &&
           to.bytes(from + insn.rip_offset + 4, after);
}

bool is_relative(Flow flow)
{
    return (flow == Flow::CALL_REL) || (flow == Flow::JUMP_REL) ||
           (flow == Flow::BRANCH_REL);
}

// Where each copied byte that begins an instruction is now, and the branches.
class Moves {
public:
    void add(size_t from, size_t to, Flow flow, int64_t target, size_t to_end)
    {
        if (count_ < MAX) {
            moves_[count_++] = {from, to, to_end,
                                is_relative(flow) ? target : -1};
        }
    }

    // What leads into the copied code leads into the copy: another tool may
    // overwrite the code. (That is near: its displacement has 32 bits.)
    void redirect(Writer &writer) const
    {
        for (size_t i = 0; i < count_; ++i) {
            for (size_t j = 0; j < count_; ++j) {
                if (int64_t(moves_[j].from) == moves_[i].target) {
                    writer.lead_to(moves_[i].to_end, moves_[j].to);
                }
            }
        }
    }

private:
    struct Move {
        size_t from, to, to_end;
        int64_t target; // in the original code; -1: none
    };

    static constexpr size_t MAX = 16;
    Move moves_[MAX];
    size_t count_ = 0;
};

const char *copy_instructions(const uint8_t *from, size_t min_size,
                              size_t wanted_size, Writer &writer, Moves &moves,
                              PrologueCopy &copy)
{
    bool ended = false;

    copy = {0, 0};
    while (copy.from_length < (ended ? min_size : wanted_size)) {
        const size_t done      = copy.from_length;
        const Instruction insn = decode(from + done);
        const int64_t target   = int64_t(done + insn.length) + insn.relative;
        const char *error      = nullptr;

        if (is_relative(insn.flow) && (target >= 0) &&
            (target < int64_t(min_size))) {
            return "it jumps into its first instructions";
        }
        if (insn.flow == Flow::UNKNOWN) {
            error = "its first instructions are not known here";
        } else if (ended && (insn.flow != Flow::NOP) && (from[done] != 0xcc)) {
            // Beyond the end of a short function only padding may be
            // overwritten.
            error = "it is shorter than a jump";
        } else if (!copy_one(insn, from + done, writer)) {
            error = "its first instructions cannot be moved";
        }
        if (error != nullptr) {
            return (done < min_size) ? error : nullptr;
        }
        moves.add(done, copy.to_length, insn.flow, target, writer.length());
        ended =
            ended || (insn.flow == Flow::END) || (insn.flow == Flow::JUMP_REL);
        copy = {done + insn.length, writer.length()};
    }
    return nullptr;
}

} // namespace

const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          PrologueCopy &copy)
{
    Writer writer(to, capacity);
    Moves moves;
    const char *error =
        copy_instructions(from, min_size, wanted_size, writer, moves, copy);

    if (error == nullptr) {
        moves.redirect(writer);
    }
    return error;
}

} // namespace ucx_ib_dmabuf

#endif
