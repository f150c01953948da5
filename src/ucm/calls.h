// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "hook.h"
#include <span>

namespace ucx_ib_dmabuf::ucm {

// One variant of a function of CUDA, hooked under each of its addresses.
struct hooked_function {
    // As dlsym() knows it; but for its suffix, cuGetProcAddress knows the
    // driver's by the same name.
    const char *symbol;
    hook_kind &(*kind)();
    // The version of CUDA that brought it, of which cuGetProcAddress is asked.
    int since;
    // What stands before UCX's own hook. Null: that needs nothing of ours.
    hook_kind &(*before_ucx)() = nullptr;
    // Without it nothing that is released goes unseen.
    bool optional = false;
};

// The newest variant of each first.
std::span<const hooked_function> driver_functions();
std::span<const hooked_function> runtime_functions();

// A CUDA runtime starts, perhaps one that was loaded since the hooks were
// installed. It holds a lock of its own here, which others want who hold the
// dynamic loader's: a hook must not call the loader, and leaves that to
// cuda_events_refresh().
inline std::atomic<bool> runtimes_may_be_new{false};

} // namespace ucx_ib_dmabuf::ucm
