// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

namespace ucx_ib_dmabuf {

/**
 * Make every call of a function run a hook instead, wherever its address came
 * from, by overwriting its first bytes with a jump (ucm_bistro_patch).
 *
 * Callers serialise; other threads may run the function meanwhile, with the
 * same small risk that UCM takes: one that stands inside the first 5 bytes at
 * that moment goes astray.
 *
 * @param function  The function's first byte.
 * @param hook      What to call instead.
 * @param name      For log messages.
 * @param original  Gets the address through which the function can still be
 *                  called, before the hook becomes reachable.
 *
 * @return nullptr, or why it is impossible (a string constant); then nothing
 *         was changed.
 */
const char *patch_function(void *function, void *hook, const char *name,
                           std::atomic<void *> &original);

/**
 * Where a patched function leads: follows the jumps at its start to the last
 * one. nullptr if it does not start with a jump.
 */
const void *patched_target(const void *function);

} // namespace ucx_ib_dmabuf
