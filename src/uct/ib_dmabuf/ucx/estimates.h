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
    // Makes this interface use it. Leaves an interface unchanged if its
    // operations are not where expected, or not those of the first interface.
    // Not thread-safe.
    void correct(const ucx_instance &of, uct_iface_h iface);

private:
    static ucs_status_t estimate_perf(uct_iface_h iface,
                                      uct_perf_attr_t *attr) noexcept;

    std::array<void *, 32> ops_{}; // must be first; the number differs
    void *original_                   = nullptr;
    estimate_perf_function *estimate_ = nullptr;
};

} // namespace ucx_ib_dmabuf
