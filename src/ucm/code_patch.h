// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

namespace ucx_ib_dmabuf::ucm {

// Makes every call of a function run a hook instead, wherever its address came
// from, by overwriting its first bytes with a jump. `original` gets the address
// through which the function can still be called, before the hook becomes
// reachable; where it was set, nothing else may ever be put there. Returns
// null, or why it is impossible (a string constant); then the function was not
// changed.
//
// Callers serialise; other threads may run the function meanwhile, with the
// same small risk that UCM takes: one that stands between two instructions
// inside the first 5 bytes at that moment goes astray.
const char *patch_function(void *function, void *hook,
                           std::atomic<void *> &original);

// Whether a function begins with a jump as patch_function() or UCM writes it.
bool begins_with_jump(const void *function);

// Where a patched function leads: follows the jumps at its start to the last
// one. Null if it does not start with a jump.
const void *patched_target(const void *function);

} // namespace ucx_ib_dmabuf::ucm
