// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf {

/**
 * Make a function begin with a jump (5 bytes) while other threads run it. They
 * find the old instructions or the jump, never a part of it. Callers serialise.
 *
 * @param function  The function's first byte.
 * @param target    Where to jump, within 2 GiB.
 *
 * @return nullptr, or why it is impossible (a string constant); then nothing
 *         was changed.
 */
const char *write_jump(void *function, const void *target);

} // namespace ucx_ib_dmabuf
