// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

/**
 * Copy the first instructions of a function elsewhere so that they do the same
 * there: relative calls, jumps and %rip-relative operands are rewritten.
 * (UCM 1.13 builds such copies too, but knows a handful of instructions only.)
 */
struct PrologueCopy {
    size_t from_length; /**< Bytes of the function that were copied */
    size_t to_length;   /**< Bytes written */
};

/**
 * @param from      The function.
 * @param from         The function.
 * @param min_size     Bytes of it that will be overwritten.
 * @param wanted_size  Bytes to copy if possible: others may overwrite them.
 * @param to           Where to write; within 2 GiB of what the function refers
 *                     to.
 * @param capacity     Bytes available there.
 * @param copy         Filled on success.
 *
 * @return nullptr, or why the code cannot be moved (a string constant).
 */
const char *copy_prologue(const uint8_t *from, size_t min_size,
                          size_t wanted_size, uint8_t *to, size_t capacity,
                          PrologueCopy &copy);

} // namespace ucx_ib_dmabuf
