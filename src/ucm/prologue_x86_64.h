// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ucx_ib_dmabuf::ucm {

// Reads an operand, which need not be aligned.
template <class Type>
Type read_operand(const uint8_t *from)
{
    Type value;
    memcpy(&value, from, sizeof(value));
    return value;
}

struct prologue_copy {
    size_t from_length; // bytes of the function that were copied
    size_t to_length;   // bytes written
};

// Copies the first instructions of a function to memory within 2 GiB of their
// operands, with the same effect: rewrites relative calls, jumps and
// %rip-relative operands. (UCM builds such copies, too, but supports only a
// handful of instructions.) The caller will overwrite `min_size` bytes of the
// function. Copies `wanted_size` if possible, as others may overwrite them.
// Returns nullptr, or why the code cannot be moved (a string constant).
const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          prologue_copy &copy);

} // namespace ucx_ib_dmabuf::ucm
