// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <cstddef>

// The parts of libucp in use, the same in every UCX (test/build/abi.tap).
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
    uct_am_callback_t proxy_cb; // as cb; also counts messages
};

// The message's header, which another host may have sent; operands follow.
struct [[gnu::packed]] ucp_atomic_req_hdr_t {
    uint64_t address;
    uint64_t ep_id;
    uint64_t req_id;
    uint8_t length;
    uint8_t opcode;
};

} // namespace ucx_ib_dmabuf
