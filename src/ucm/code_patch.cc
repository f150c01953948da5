// SPDX-License-Identifier: BSD-3-Clause
#include "code_patch.h"
#include "code_arena.h"
#include "code_write.h"
#include "prologue_x86_64.h"
#include <cstring>

namespace ucx_ib_dmabuf::ucm {

#if defined(__x86_64__)

namespace {

constexpr size_t jump_near     = 5;  // e9 disp32
constexpr size_t jump_indirect = 14; // ff 25 00000000, address
constexpr size_t longest_patch = 16; // UCM's have 13 bytes, others' 14 or 16
constexpr size_t moved_code    = 64;

uint8_t *write_far_jump(uint8_t *at, const void *target)
{
    static const uint8_t opcode[6] = {0xff, 0x25};
    memcpy(at, opcode, sizeof(opcode));
    memcpy(at + sizeof(opcode), &target, sizeof(target));
    return at + jump_indirect;
}

// mov $address, %rax; jmp *%rax, or the same by %r11.
bool jumps_by_register(const uint8_t *p)
{
    return ((p[0] == 0x48) && (p[1] == 0xb8) && (p[10] == 0xff) &&
            (p[11] == 0xe0)) ||
           ((p[0] == 0x49) && (p[1] == 0xbb) && (p[10] == 0x41) &&
            (p[11] == 0xff) && (p[12] == 0xe3));
}

// Returns the jump's offset: behind a comparison at the start, which UCX knows
// from the driver's functions (ucm/bistro/bistro_x86_64.c). It changes only
// flags and is copied, too. So uprobes work. They overwrite the first byte with
// a breakpoint, run the file's first instruction elsewhere, continue behind it,
// and finally restore the file's byte.
size_t jump_offset(const uint8_t *p)
{
    const bool compares = ((p[0] == 0x81) || (p[0] == 0xcc)) && (p[1] == 0x3d);
    return compares ? 10 : 0; // cmpl $immediate, displacement(%rip)
}

} // namespace

const char *patch_function(void *function, void *hook,
                           std::atomic<void *> &original)
{
    static code_arena arena;
    const size_t size = jump_indirect + moved_code + jump_indirect;
    prologue_copy copy;

    uint8_t *stub = arena.reserve(function, size);
    if (stub == nullptr) {
        return "no executable memory near it";
    }
    uint8_t *moved = write_far_jump(stub, hook);
    auto *code     = static_cast<uint8_t *>(function);
    uint8_t *place = code + jump_offset(code);
    uint8_t before[jump_near];
    memcpy(before, place, sizeof(before));
    // Another UCX may patch over this later and need more bytes.
    const char *error = copy_prologue(code, size_t(place - code) + jump_near,
                                      longest_patch, moved, moved_code, copy);
    if (error != nullptr) {
        return error;
    }
    write_far_jump(moved + copy.to_length, code + copy.from_length);

    original.store(moved, std::memory_order_release);
    arena.commit(size);
    return write_jump(place, before, stub);
}

bool begins_with_jump(const void *function)
{
    const auto *p = static_cast<const uint8_t *>(function);
    p += jump_offset(p);
    return (p[0] == 0xe9) || jumps_by_register(p);
}

const void *patched_target(const void *function)
{
    const auto *p      = static_cast<const uint8_t *>(function);
    const void *target = nullptr;
    p += jump_offset(p);

    for (int hops = 0; hops < 4; ++hops) {
        if (p[0] == 0xe9) {
            int32_t displacement;
            memcpy(&displacement, p + 1, sizeof(displacement));
            target = p + jump_near + displacement;
        } else if (jumps_by_register(p)) {
            memcpy(&target, p + 2, sizeof(target));
        } else if ((hops > 0) && (p[0] == 0xff) && (p[1] == 0x25)) {
            int32_t displacement;
            memcpy(&displacement, p + 2, sizeof(displacement));
            memcpy(&target, p + 6 + displacement, sizeof(target));
        } else {
            break;
        }
        p = static_cast<const uint8_t *>(target);
    }
    return target;
}

#else

const char *patch_function(void *, void *, std::atomic<void *> &)
{
    // On other processors UCM cannot call the original of a patched function.
    return "functions cannot be patched on this processor";
}

bool begins_with_jump(const void *)
{
    return false;
}

const void *patched_target(const void *)
{
    return nullptr;
}

#endif

} // namespace ucx_ib_dmabuf::ucm
