// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "ucm/cuda_events.h"

namespace ucx_ib_dmabuf {

/** Why releases may go unseen. Once noted, a gap stays. */
enum class Gap : unsigned {
    HOOKS  = 1, /**< a function could not be hooked */
    GRAPHS = 2, /**< graphs allocate memory */
    MEMORY = 4, /**< something could not be written down */
};

/**
 * Note a gap, and tell the subscriber if it is new. Takes no lock; call it with
 * none held.
 *
 * @param why  For the subscriber's warning; nullptr: what is usual for this
 * gap.
 */
void note_gap(Gap gap, const char *why = nullptr) noexcept;

/** Whether there is any. */
bool has_gap() noexcept;

/** The reasons of all gaps but HOOKS. May allocate memory. */
std::string gap_reasons();

} // namespace ucx_ib_dmabuf
