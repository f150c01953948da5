// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "hook.h"
#include <span>

namespace ucx_ib_dmabuf::ucm {

// A variant of a CUDA function, hooked at each of its addresses.
struct hooked_function {
    // The name for dlsym(); without its suffix, also for cuGetProcAddress.
    const char *symbol;
    hook_kind &(*kind)();
    // The CUDA version that introduced it, an argument for cuGetProcAddress.
    int since;
    // The hook in front of UCX's own hook. nullptr: UCX's hook suffices.
    hook_kind &(*before_ucx)() = nullptr;
    // Without this hook no release is missed.
    bool optional = false;
};

// The newest variant of each function comes first.
std::span<const hooked_function> driver_functions();
std::span<const hooked_function> runtime_functions();

// A CUDA runtime starts, perhaps one that was loaded after the hooks were
// installed. It holds its own lock here, which a thread with the dynamic
// loader's lock may want. So a hook must not call the loader;
// cuda_events_refresh() does.
inline std::atomic<bool> runtimes_may_be_new{false};

} // namespace ucx_ib_dmabuf::ucm
