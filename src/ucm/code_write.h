// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace ucx_ib_dmabuf::ucm {

// Replaces the 5 bytes `before` that a function begins with by a jump to a
// target within 2 GiB, while other threads run it. They find the old
// instructions or the jump, never a part of it. Callers serialise. Returns
// null, or why it is impossible (a string constant); then nothing was changed.
const char *write_jump(void *function, const uint8_t *before,
                       const void *target);

} // namespace ucx_ib_dmabuf::ucm
