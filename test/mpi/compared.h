// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_MPI_COMPARED_H_
#define UCX_IB_DMABUF_TEST_MPI_COMPARED_H_

#include "job.h"
#include <functional>

namespace ucx_ib_dmabuf::test {

// What a call is given: two buffers of this rank, each of one kind of memory.
struct two_buffers {
    memory send;
    memory receive;
    size_t sent;     // bytes that the call may read
    size_t received; // bytes that it may write, or leave
};

using call_on = std::function<void(uint8_t *send, uint8_t *receive)>;

// Makes the call with host memory and with memory of these kinds, with the same
// bytes in it before, and expects the same bytes after: those that it wrote,
// and those that it left. All ranks of the call make it. `own` is how many
// bytes the call may have the GPU copy by itself, within this rank; what is
// copied beyond that was staged. Where large is not set, copies do not count.
void compare_with_host(job &in, const two_buffers &with, const call_on &call,
                       bool large, size_t own = 0);

// The kinds of a test case: rank 0 sends and receives in the first kind of
// memory, the others in the second; crossed: all send from the first and
// receive into the second.
two_buffers same_kinds(const job &in, memory first, memory second);
two_buffers crossed_kinds(memory first, memory second);

} // namespace ucx_ib_dmabuf::test

#endif
