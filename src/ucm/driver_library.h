// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "calls.h"
#include <array>
#include <climits>

namespace ucx_ib_dmabuf::ucm {

// libcuda, if this process has loaded it.
class driver_library {
public:
    // Finds libcuda and prevents it from being unloaded.
    driver_library();

    bool found() const { return handle_ != nullptr; }
    void *symbol(const char *name) const;

    // Returns a variant's addresses: from dlsym(), and from cuGetProcAddress
    // for the CUDA that introduced it and for this driver's CUDA (`newest`).
    // Omits `newest` if that CUDA is newer than all known variants. Addresses
    // that do not exist are nullptr; some may be equal.
    std::array<void *, 3> find(const hooked_function &function,
                               void **newest) const;

private:
    void *ask(const char *entry, int version, uint64_t flags) const;

    void *handle_;
    int version_ = INT_MAX; // CUDA's, from cuDriverGetVersion
};

} // namespace ucx_ib_dmabuf::ucm
