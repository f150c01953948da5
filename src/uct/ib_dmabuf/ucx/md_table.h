// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include "md_override.h"
#include <array>
#include <forward_list>
#include <memory>

namespace ucx_ib_dmabuf {

// UCP's handler of endpoint failures.
struct failure_handler {
    uct_error_handler_t *handler;
    void *arg;
    md_ops *of;

    bool operator==(const failure_handler &) const = default;
};

// The functions of a memory domain with the plug-in's operations.
struct md_table {
    std::array<void *, max_md_ops>
        ops; // must be first: the domain points to it
    saved_md_ops original;
    std::unique_ptr<md_ops> user;
    // Handlers of the domain's interfaces, which UCX closes before the domain.
    std::forward_list<failure_handler> handlers{};

    static md_table &of(uct_md_h md)
    {
        return *reinterpret_cast<md_table *>(md->ops);
    }
    // Returns nullptr if the domain still has uct_ib's operations.
    static md_table *find(uct_md_h md);
};

// Replaces iface_open of this UCX's transports: interfaces then report failed
// endpoints to their domain, and have a corrected estimate. Thread-safe.
void override_transports(const ucx_instance &of);

} // namespace ucx_ib_dmabuf
