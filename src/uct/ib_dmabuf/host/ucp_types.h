// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <cstddef>

// What is used of libucp, the same in every UCX (test/build/abi.tap).
namespace ucx_ib_dmabuf {

using uct_am_callback_t = ucs_status_t (*)(void *arg, void *data, size_t length,
                                           unsigned flags);

constexpr uint64_t feature_amo = (1u << 2) | (1u << 3); // UCP_FEATURE_AMO
enum : unsigned { UCT_CB_PARAM_FLAG_DESC = 1u << 0 };

struct ucp_am_handler_t {
    uint64_t features;
    uct_am_callback_t cb;
    void *tracer;
    uint32_t flags;
    uct_am_callback_t proxy_cb; // the same; counts what arrives
};

// Of the message, which another host may have sent; one or two operands follow.
struct [[gnu::packed]] ucp_atomic_req_hdr_t {
    uint64_t address;
    uint64_t ep_id;
    uint64_t req_id;
    uint8_t length;
    uint8_t opcode;
};

} // namespace ucx_ib_dmabuf
