// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "job.h"
#include <functional>

namespace ucx_ib_dmabuf::test {

// The buffers of a call in this rank, each of one kind of memory.
struct two_buffers {
    memory send;
    memory receive;
    size_t sent;     // bytes that the call may read
    size_t received; // bytes that it may write, or leave unchanged
    // The receive buffer is on the next GPU, not on the rank's own.
    bool apart = false;
};

using call_on = std::function<void(uint8_t *send, uint8_t *receive)>;

// Makes the call, which all ranks must make, with a pair of buffers in host
// memory, and with a pair in the given kinds. Both pairs have the same bytes,
// different in each rank. Expects equal bytes afterwards, also where none were
// written. `own`: bytes that the second call may have the GPU copy within this
// rank; further ones count as staged. Copies count only if `large` is set.
void compare_with_host(job &in, const two_buffers &with, const call_on &call,
                       bool large, size_t own = 0);

// The kinds of a test case: rank 0 sends and receives in the first kind of
// memory, the others in the second. Crossed: all ranks send from the first kind
// and receive into the second.
two_buffers same_kinds(const job &in, memory first, memory second);
two_buffers crossed_kinds(memory first, memory second);

} // namespace ucx_ib_dmabuf::test
