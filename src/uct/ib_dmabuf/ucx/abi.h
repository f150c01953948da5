// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "md_override.h"
#include "transport_types.h"
#include <array>
#include <forward_list>
#include <memory>

// A memory domain of UCX 1.16 and later (test/build/abi.tap).
namespace ucx_ib_dmabuf {

// uct_md_ops_t: operations that have the same index in every UCX. The plug-in
// replaces no others.
enum md_op {
    op_close     = 0,
    op_query     = 1,
    op_mem_reg   = 5,
    op_mem_dereg = 6,
    op_mkey_pack = 8,
};
constexpr size_t max_ops = 16;

constexpr size_t pd_offset = 16; // of uct_ib_md_t

// The start of uct_md_attr_v2_t; UCT passes a complete one.
struct uct_md_attr_v2 {
    uint64_t field_mask;
    uint64_t max_alloc;
    size_t max_reg;
    uint64_t flags;
    uint64_t reg_mem_types;
};

using md_close_function   = void(uct_md_h md);
using md_query_function   = ucs_status_t(uct_md_h md, uct_md_attr_v2 *attr);
using md_mem_reg_function = ucs_status_t(uct_md_h md, void *address,
                                         size_t length,
                                         const uct_md_mem_reg_params_t *params,
                                         uct_mem_h *memh);
using md_mem_dereg_function =
    ucs_status_t(uct_md_h md, const uct_md_mem_dereg_params_t *params);
using md_mkey_pack_function =
    ucs_status_t(uct_md_h md, uct_mem_h memh, void *address, size_t length,
                 const uct_md_mkey_pack_params_t *params, void *buffer);

// UCP's handler of endpoint failures. The domain is notified before it.
struct failure_handler {
    uct_error_handler_t *handler;
    void *arg;
    md_ops *of;

    bool operator==(const failure_handler &) const = default;
};

// A memory domain of uct_ib with the plug-in's operations.
struct md_override {
    std::array<void *, max_ops> ops; // must be first: the domain points to it
    saved_md_ops original;
    std::unique_ptr<md_ops> user;
    // Handlers of the domain's interfaces, which UCX closes before the domain.
    std::forward_list<failure_handler> handlers{};

    static md_override &of(uct_md_h md)
    {
        return *reinterpret_cast<md_override *>(md->ops);
    }
    // Returns nullptr if the domain still has uct_ib's operations.
    static md_override *find(uct_md_h md);
};

// Replaces the domain's operations by ones that call `user`.
void install_md_override(uct_md_h md, const saved_md_ops &original,
                         std::unique_ptr<md_ops> user);

} // namespace ucx_ib_dmabuf
