// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "calls.h"
#include <climits>
#include <string>
#include <vector>

// Finding CUDA's libraries and functions in this process. Loads nothing.
namespace ucx_ib_dmabuf::ucm {

// A function's addresses, each once; empty if it does not exist here.
using addresses = std::vector<void *>;

class driver_library {
public:
    // Finds libcuda and keeps it from being unloaded.
    driver_library();

    bool found() const { return handle_ != nullptr; }
    void *symbol(const char *name) const;

    // All addresses of a variant: dlsym's, and what cuGetProcAddress answers
    // for the CUDA that brought it and, if no older variant has taken that, for
    // this driver's: `newest`, or null.
    addresses find(const hooked_function &function, void **newest) const;

private:
    void *ask(const char *entry, int version, uint64_t flags) const;

    void *handle_;
    int version_ = INT_MAX; // CUDA's, as cuDriverGetVersion says
};

// All CUDA runtimes in the process: each libcudart.so, and whatever exports the
// runtime's functions globally. They stay loaded: what dlsym(RTLD_DEFAULT)
// finds does, as long as the library that asks.
std::vector<void *> runtime_libraries();
addresses find_in(const std::vector<void *> &libraries,
                  const hooked_function &function);

// Whether an address lies in the UCM whose events we use, or in one of its
// modules: a hook there announces to our subscribers. Other copies of UCX have
// a UCM and subscribers of their own.
bool is_in_our_ucm(const void *address);

// Keeps the library that this code is in from being unloaded.
void pin_this_library();

} // namespace ucx_ib_dmabuf::ucm
