// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "library.h"

namespace ucx_ib_dmabuf {

// Looks up symbols of one UCX instance, and remembers the first missing one.
class look_up {
public:
    explicit look_up(const library &ucx)
        : ucx_(ucx), all_(library::everything()),
          is_global_(all_.symbol(probe) == ucx.symbol(probe))
    {
    }

    template <class Pointer>
    void find(const char *name, Pointer *out)
    {
        found(name, ucx_.symbol(name), out);
    }
    // Looks up a variable. If the program is linked with this UCX, the variable
    // may be in the program (a copy relocation).
    template <class Pointer>
    void find_variable(const char *name, Pointer *out)
    {
        found(name, (is_global_ ? all_ : ucx_).symbol(name), out);
    }
    const char *missing() const { return missing_; }

private:
    // If the global scope has the same one, this UCX's symbols are global.
    static constexpr char probe[] = "ucs_log_dispatch";

    template <class Pointer>
    void found(const char *name, void *symbol, Pointer *out)
    {
        if ((symbol == nullptr) && (missing_ == nullptr)) {
            missing_ = name;
        }
        *out = reinterpret_cast<Pointer>(symbol);
    }

    const library &ucx_;
    const library all_;
    const bool is_global_;
    const char *missing_ = nullptr;
};

} // namespace ucx_ib_dmabuf
