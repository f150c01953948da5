// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_STAGING_H_
#define UCX_IB_DMABUF_MD_STAGING_H_

#include "../cache/memory_run.h"
#include "../gpu.h"
#include "../verbs/functions.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

class staging_pool;

// A host copy of GPU memory, registered under the GPU's addresses, for one
// operation after the other. UCX 1.13 fails a message if it cannot register a
// buffer once its protocol is chosen; with this in place of the registration
// the message is staged instead. The NIC reads and writes the copy.
//
// What the NIC did not write never goes back to the GPU. Others write there
// meanwhile: the other rails of the same operation, which UCX deals pieces of
// the buffer to, and, where UCX registers the whole allocation, other
// operations and kernels.
//
// In the child of a fork it is the parent's: nothing is written, and its keys
// stay.
class staging_buffer {
public:
    // Of that many bytes, or some more. Null without memory; logged.
    static std::unique_ptr<staging_buffer> create(size_t length);
    ~staging_buffer();
    staging_buffer(const staging_buffer &)            = delete;
    staging_buffer &operator=(const staging_buffer &) = delete;

    // What it takes of host memory that is registered.
    size_t capacity() const { return capacity_; }
    // Whether it can be used for this range, and without a registration.
    bool has_room(uintptr_t address, size_t length) const;
    bool covers(uintptr_t address, size_t length) const;

    // Begins an operation: copies what is on the GPU. A failure is logged, but
    // for UCS_ERR_NO_RESOURCE: it cannot be registered (errno).
    ucs_status_t start(gpu_vendor &gpu, const protection_domain &pd,
                       uintptr_t address, size_t length, int access);
    // Ends it: copies what the NIC wrote to the GPU. Call once, when all NICs
    // are done with the operation.
    void finish(gpu_vendor &gpu);
    // Makes the keys invalid; then only finish() and start() may be called.
    void invalidate();

    // Whether this process made it, and not its parent.
    bool is_ours() const;

    const ibv_mr *mr() const { return mr_; }
    // Where the operation's bytes are.
    char *bytes() const { return at(address_); }

    // Its pool's, while it is idle.
    const staging_pool *pool = nullptr;
    staging_buffer *next     = nullptr;

private:
    staging_buffer(char *memory, size_t capacity);
    char *at(uintptr_t address) const { return memory_ + (address - window_); }

    char *const memory_; // three times the capacity: copy, before, merged
    const size_t capacity_;
    const pid_t process_;
    uintptr_t window_  = 0; // the GPU's address of the copy's first byte
    uintptr_t address_ = 0;
    size_t length_     = 0;
    memory_run origin_; // what is there; empty if it cannot be told
    const verbs_functions *verbs_ = nullptr; // that made it
    ibv_mr *mr_                   = nullptr; // of the whole copy
};

} // namespace ucx_ib_dmabuf

#endif
