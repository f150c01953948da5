// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_NIC_H_
#define UCX_IB_DMABUF_MD_NIC_H_

#include "../cache/provider.h"
#include "memh.h"
#include <mutex>

namespace ucx_ib_dmabuf {

// Registers dma-bufs in the protection domain of one of uct_ib's memory
// domains. The cache's handles are memh objects.
class nic final : public registrar {
public:
    explicit nic(uct_ib_md_t *md);

    ucs_status_t reg(int fd, size_t offset, uintptr_t address, size_t length,
                     void **handle) override;
    void dereg(void *handle) override;

    // A handle for one operation on a host copy; null if that fails.
    memh *stage(const driver &cuda, uintptr_t address, size_t length);

    // `completion` is told when the handle's keys have become invalid.
    void notify_invalidated(memh *handle, uct_completion_t *completion);

private:
    int access() const;

    uct_ib_md_t *const md_;
    std::mutex mutex_;
};

} // namespace ucx_ib_dmabuf

#endif
