// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "ucm/functions.h"

/** Finding CUDA's libraries and functions in this process. Loads nothing. */
namespace ucx_ib_dmabuf {

/** A function's addresses, each once; empty if it does not exist here. */
using Addresses = std::vector<void *>;

/** The driver library. */
class DriverLibrary {
public:
    /** Find libcuda and keep it from being unloaded. */
    DriverLibrary();

    bool found() const { return handle_ != nullptr; }

    void *symbol(const char *name) const;

    /**
     * All addresses of a function: dlsym's, and what cuGetProcAddress answers
     * for every version of CUDA that brought another variant.
     */
    Addresses addresses(const HookedFunction &function) const;

private:
    void *ask(const char *entry, int version, Streams streams) const;

    void *handle_        = nullptr;
    void *get_proc_      = nullptr;
    bool get_proc_is_v2_ = false;
};

/**
 * Handles of all CUDA runtimes in the process: each libcudart.so, and whatever
 * exports the runtime's functions globally. They stay loaded.
 */
std::vector<void *> runtime_libraries();

/** A function's addresses in these libraries. */
Addresses runtime_addresses(const std::vector<void *> &libraries,
                            const char *symbol);

/** How many libraries this process has loaded so far: cheap to ask. */
uint64_t libraries_loaded();

/**
 * Whether an address lies in the UCM whose events we use, or in one of its
 * modules: a hook there announces to our subscribers. Other copies of UCX have
 * a UCM and subscribers of their own.
 */
bool is_in_our_ucm(const void *address);

/** Keep the library that this code is in from being unloaded. */
void pin_this_library();

} // namespace ucx_ib_dmabuf
