// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace ucx_ib_dmabuf::ucm {

// Hook functions for one kind of call. Each hooked function needs its own slot,
// which stores the address of its original.
struct hook_kind {
    struct slot {
        void *hook;
        std::atomic<void *> *original;
    };
    static constexpr size_t max_slots = 12;

    slot slots[max_slots];
    size_t used = 0; // guarded by the installer's lock
};

// A variant of a CUDA function, hooked at each of its addresses.
struct hooked_function {
    // The name for dlsym(); without its suffix, also for cuGetProcAddress.
    const char *symbol;
    hook_kind &(*kind)();
    // The CUDA version that introduced it, an argument for cuGetProcAddress.
    int since;
    // Hooked even in front of UCX's own hook, which records less.
    bool allocates = false;
    // Without this hook no release is missed.
    bool optional = false;
};

// The newest variant of each function comes first.
std::span<const hooked_function> hooked_functions();

} // namespace ucx_ib_dmabuf::ucm
