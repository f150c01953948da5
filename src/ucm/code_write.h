// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace ucx_ib_dmabuf::ucm {

// Replaces the 5 bytes `before` at the start of a function by a jump to a
// target within 2 GiB, while other threads run it. They see the old
// instructions or the jump, never a mixture. Callers serialise. Returns
// nullptr, or why nothing was changed (a string constant).
const char *write_jump(void *function, const uint8_t *before,
                       const void *target);

} // namespace ucx_ib_dmabuf::ucm
