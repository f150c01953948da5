// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "job.h"
#include <functional>

namespace ucx_ib_dmabuf::test {

// What a call is given: two buffers of this rank, each of one kind of memory.
struct two_buffers {
    memory send;
    memory receive;
    size_t sent;     // bytes that the call may read
    size_t received; // bytes that it may write, or leave
    // What is received is on the next GPU, not on the rank's.
    bool apart = false;
};

// Both buffers twice, in host memory and in memory of these kinds, for a call
// that is made with both.
class compared {
public:
    compared(job &in, const two_buffers &with);
    ~compared();
    compared(const compared &)            = delete;
    compared &operator=(const compared &) = delete;

    uint8_t *host_send() { return sent_.data(); }
    uint8_t *host_receive() { return received_.data(); }
    uint8_t *send() const { return send_->at(); }
    uint8_t *receive() const { return receive_->at(); }

    // Puts other bytes there, the same in both; others in each rank. Makes both
    // calls, and expects the same bytes after: those that they wrote, and those
    // that they left. `own` is how many bytes the second one may have the GPU
    // copy by itself, within this rank; what is copied beyond that was staged.
    // Where large is not set, copies do not count.
    void run(const std::function<void()> &with_host,
             const std::function<void()> &with_kinds, bool large, size_t own);

private:
    job &job_;
    std::vector<uint8_t> sent_, received_;
    std::unique_ptr<buffer> send_, receive_;
};

using call_on = std::function<void(uint8_t *send, uint8_t *receive)>;

// The same for one call. All ranks of the call make it.
void compare_with_host(job &in, const two_buffers &with, const call_on &call,
                       bool large, size_t own = 0);

// The kinds of a test case: rank 0 sends and receives in the first kind of
// memory, the others in the second; crossed: all send from the first and
// receive into the second.
two_buffers same_kinds(const job &in, memory first, memory second);
two_buffers crossed_kinds(memory first, memory second);

} // namespace ucx_ib_dmabuf::test
