// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <span>

namespace ucx_ib_dmabuf::ucm {

// Redirects every call of a function to a hook, wherever the caller got its
// address, by overwriting the function's first bytes with a jump. Before the
// hook becomes reachable, `original` is set to an address that still calls the
// function; once set, never use it for another function. Returns nullptr, or
// why it is impossible (a string constant); the function is unchanged then.
//
// Callers serialise. Other threads may run the function meanwhile, with the
// same small risk on x86-64 that UCM takes. A thread that stands between two
// instructions inside the first 5 bytes at that moment runs garbage.
const char *patch_function(void *function, void *hook,
                           std::atomic<void *> &original);

// While it lives, functions of the first one's library are writable, from the
// first to the last of these: two calls of the kernel instead of two for each.
// Callers serialise. Calls the dynamic loader.
class writable_functions {
public:
    explicit writable_functions(std::span<void *const> functions);
    ~writable_functions();
    writable_functions(const writable_functions &)            = delete;
    writable_functions &operator=(const writable_functions &) = delete;
};

// Whether patches of code that has already run take effect. They do not in
// valgrind, which runs a translation.
bool patches_take_effect();

// Returns the target of a patched function: follows the jumps at its start to
// the last one. Returns nullptr if it does not start with a jump.
const void *patched_target(const void *function);

// From now on, overwritten_patch() returns this text, which must stay valid, if
// something overwrites the jump at the function's start: a uprobe or another
// tool. If the function begins with no jump, this does nothing.
void watch_patch(const void *function, const char *text);

// Returns nullptr, or the text of a watched function whose jump was
// overwritten. Waits for no lock.
const char *overwritten_patch() noexcept;

} // namespace ucx_ib_dmabuf::ucm
