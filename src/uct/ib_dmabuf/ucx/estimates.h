// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include <array>

namespace ucx_ib_dmabuf {

class ucx_instance;

// The internal operations of a transport's interfaces, with one estimate of
// their speed corrected, by which UCP chooses a protocol. Interfaces point to
// it.
class estimates {
public:
    // Reads the interface's operations. Calls the loader.
    static estimates of(const ucx_instance &instance, uct_iface_h iface);

    // Whether they were where expected.
    explicit operator bool() const { return original_ != nullptr; }
    // Makes an interface use them if it has the same original operations.
    void use_in(uct_iface_h iface);

private:
    static ucs_status_t estimate_perf(uct_iface_h iface,
                                      uct_perf_attr_t *attr) noexcept;

    std::array<void *, 32> ops_{}; // must be first; the number differs
    void *original_                   = nullptr;
    estimate_perf_function *estimate_ = nullptr;
};

} // namespace ucx_ib_dmabuf
