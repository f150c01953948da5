// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_STAGING_POOL_H_
#define UCX_IB_DMABUF_MD_STAGING_POOL_H_

#include "staging.h"

namespace ucx_ib_dmabuf {

// The staging buffers of one protection domain. Some are kept when they are
// idle, with their registration: an operation on the same GPU memory finds its
// own again, and costs neither a registration nor page faults. Keys of a staged
// range are never given to another host, so none can be used late. Thread-safe.
//
// Idle ones give way to whatever else of the process is to be registered and
// cannot be: all NICs share the limit of locked memory.
class staging_pool {
public:
    // What is kept idle at most: bytes registered, and buffers.
    static constexpr size_t max_idle_bytes = size_t{64} << 20;
    static constexpr size_t max_idle       = 32;

    staging_pool(gpu_vendor &gpu, const protection_domain &pd, int access)
        : gpu_(gpu), pd_(pd), access_(access)
    {
    }
    ~staging_pool();
    staging_pool(const staging_pool &)            = delete;
    staging_pool &operator=(const staging_pool &) = delete;

    // A copy of the range, registered. Null if there is none; logged.
    std::unique_ptr<staging_buffer> start(uintptr_t address, size_t length);
    // What the NIC wrote goes to the GPU; the buffer may be kept.
    void finish(std::unique_ptr<staging_buffer> buffer);

    size_t idle_bytes() const;

    // Whether any pool has idle buffers that are not deregistered yet; cheap.
    static bool any_idle();
    // Returns when they are, those that another thread took as well.
    static void drop_all_idle();

private:
    std::unique_ptr<staging_buffer> take(uintptr_t address, size_t length);
    std::unique_ptr<staging_buffer>
    keep(std::unique_ptr<staging_buffer> &buffer);

    gpu_vendor &gpu_;
    const protection_domain pd_;
    const int access_;
};

} // namespace ucx_ib_dmabuf

#endif
