// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "domain.h"
#include "transport_types.h"
#include <array>
#include <forward_list>
#include <memory>

// A memory domain of UCX 1.16 and later (test/build/abi.tap).
namespace ucx_ib_dmabuf {

// uct_md_ops_t: those that stand at the same place in every UCX. What follows
// differs, and is not ours.
enum md_op {
    op_close     = 0,
    op_query     = 1,
    op_mem_reg   = 5,
    op_mem_dereg = 6,
    op_mkey_pack = 8,
};
constexpr size_t max_ops = 16;

constexpr size_t pd_offset = 16; // of uct_ib_md_t

// The begin of uct_md_attr_v2_t; UCT hands over a whole one of its own.
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

// What UCP wants to be told failures of endpoints by; the domain hears of them
// first.
struct failure_handler {
    uct_error_handler_t *handler;
    void *arg;
    domain *of;

    bool operator==(const failure_handler &) const = default;
};

// A memory domain of uct_ib's with our operations in place of its own.
struct decorated {
    std::array<void *, max_ops> ops; // first: the domain points to it
    original_domain original;
    std::unique_ptr<domain> user;
    // Of its interfaces, which UCX closes before it.
    std::forward_list<failure_handler> handlers{};

    static decorated &of(uct_md_h md)
    {
        return *reinterpret_cast<decorated *>(md->ops);
    }
    // Null: it is none, but as uct_ib opened it.
    static decorated *find(uct_md_h md);
};

// Gives the domain operations that call `user`'s.
void put_in_place(uct_md_h md, const original_domain &original,
                  std::unique_ptr<domain> user);

} // namespace ucx_ib_dmabuf
