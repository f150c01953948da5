// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_STAGING_H_
#define UCX_IB_DMABUF_MD_STAGING_H_

#include "../cuda/driver.h"
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>

namespace ucx_ib_dmabuf {

// A host copy of GPU memory, registered under the GPU's addresses, for one
// operation. UCX 1.13 fails a message if it cannot register a buffer once its
// protocol is chosen; with this in place of the registration the message is
// staged instead. The NIC reads and writes the copy.
//
// UCX registers the whole allocation that a buffer is in, so there may be
// several copies of the same memory at a time, for operations on different
// parts of it. Only what the NIC wrote may go back to the GPU: an operation's
// buffer is contiguous, so that is all from the first byte that changed to the
// last one.
class staging_buffer {
public:
    // Null if there is no memory for it; logged.
    static std::unique_ptr<staging_buffer> create(const driver &cuda,
                                                  ibv_pd *pd, uintptr_t address,
                                                  size_t length, int access);
    ~staging_buffer();
    staging_buffer(const staging_buffer &)            = delete;
    staging_buffer &operator=(const staging_buffer &) = delete;

    ibv_mr *mr() const { return mr_; }

    // Copies what the NIC wrote to the GPU. Call once, when the NIC is done.
    void finish();

private:
    staging_buffer(const driver &cuda, uintptr_t address, size_t length);

    const driver &cuda_;
    const uintptr_t address_;
    const size_t length_;
    void *memory_ = nullptr; // page-aligned
    char *bytes_  = nullptr; // in it, with the GPU address's page offset
    void *before_ = nullptr; // what was in bytes_ at first
    ibv_mr *mr_   = nullptr;
};

} // namespace ucx_ib_dmabuf

#endif
