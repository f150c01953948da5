// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// The machine code that code_patch.cc needs. Each architecture implements this
// header in one file, as x86_64.cc does.
namespace ucx_ib_dmabuf::ucm {

#if defined(__x86_64__)
constexpr size_t near_jump_size = 5;  // e9 disp32
constexpr size_t far_jump_size  = 14; // ff 25 00000000, address
constexpr size_t entry_size     = far_jump_size;
constexpr size_t return_size    = far_jump_size;
// Near jumps and the operands of moved code reach this far.
constexpr uintptr_t near_distance = uintptr_t(1) << 30;
#elif defined(__aarch64__)
constexpr size_t near_jump_size = 4;  // b
constexpr size_t entry_size     = 20; // autiasp, ldr, br, address
constexpr size_t return_size    = 4;  // b
// A jump reaches 128 MiB: less the copy and what it jumps to.
constexpr uintptr_t near_distance = uintptr_t(120) << 20;
#endif

// ThreadSanitizer has no shadow memory for code, as programs do not write it.
#define WRITES_CODE __attribute__((no_sanitize("thread")))

// Reads an operand, which need not be aligned.
template <class Type>
Type read_operand(const uint8_t *from)
{
    Type value;
    memcpy(&value, from, sizeof(value));
    return value;
}

// Returns where in a function the near jump to a hook belongs: not at the start
// if tools or UCX expect a certain first instruction.
size_t jump_offset(const uint8_t *code);

// Returns the target of a jump as patches begin with it, else nullptr. A jump
// through memory counts only `behind` another one: functions may begin so.
const void *jump_target(const uint8_t *code, bool behind);

// Makes all threads run code that was written, not what they have fetched.
void make_visible(uint8_t *code, size_t length);

// Replaces the bytes `before` by a near jump while other threads run them.
// These see old instructions or the jump, never a mixture. Returns nullptr, or
// why there is no jump (a string constant); nothing is changed then.
const char *store_near_jump(uint8_t *code, const uint8_t *before,
                            const void *target);

// Writes the code that the near jump leads to: a jump to the hook of the
// function that begins with `code`. Returns its end.
uint8_t *write_entry(uint8_t *at, const uint8_t *code, const void *hook);

// Writes the jump at the end of copied code, back into the function. Returns
// its end.
uint8_t *write_return(uint8_t *at, const void *target);

// Flags of mprotect() that the code's page has beside those to read, write and
// execute it.
int extra_protection(const uint8_t *code);

struct prologue_copy {
    size_t from_length; // bytes of the function that were copied
    size_t to_length;   // bytes written
};

// Copies the first instructions of a function to memory near their operands,
// with the same effect: rewrites what is relative to their place. (UCM builds
// such copies, too, but supports only a handful of instructions.) The caller
// will overwrite `min_size` bytes of the function. Copies `wanted_size` if
// possible, as others may overwrite them. Returns nullptr, or why the code
// cannot be moved (a string constant).
const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          prologue_copy &copy);

} // namespace ucx_ib_dmabuf::ucm
