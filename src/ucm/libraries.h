// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "calls.h"
#include <climits>
#include <string>
#include <vector>

// Finds CUDA's libraries and functions in this process. Loads no library.
namespace ucx_ib_dmabuf::ucm {

// The distinct addresses of a function; empty if it does not exist here.
using addresses = std::vector<void *>;

class driver_library {
public:
    // Finds libcuda and prevents it from being unloaded.
    driver_library();

    bool found() const { return handle_ != nullptr; }
    void *symbol(const char *name) const;

    // Returns a variant's addresses: from dlsym(), and from cuGetProcAddress
    // for the CUDA that introduced it and for this driver's CUDA (`newest`, or
    // nullptr). Omits `newest` if that CUDA is newer than all known variants.
    addresses find(const hooked_function &function, void **newest) const;

private:
    void *ask(const char *entry, int version, uint64_t flags) const;

    void *handle_;
    int version_ = INT_MAX; // CUDA's, from cuDriverGetVersion
};

// Returns all CUDA runtimes in the process: each libcudart.so, and RTLD_DEFAULT
// for others that export the same functions. All stay loaded: glibc keeps a
// library that dlsym(RTLD_DEFAULT) finds as long as the calling library.
std::vector<void *> runtime_libraries();
addresses find_in(const std::vector<void *> &libraries,
                  const hooked_function &function);

// Whether an address lies in the UCM that sends our events, or in one of its
// modules: a hook there announces to our subscribers. Any other loaded UCX has
// its own UCM and subscribers.
bool is_in_our_ucm(const void *address);

// Prevents the library that contains this code from being unloaded.
void pin_this_library();

} // namespace ucx_ib_dmabuf::ucm
