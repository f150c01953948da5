// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_PROVE_HOST_PAGES_H_
#define UCX_IB_DMABUF_PROVE_HOST_PAGES_H_

#include "../host/verbs.h"
#include "wire.h"

namespace ucx_ib_dmabuf {

// Host memory that a NIC reaches, for as long as this is. Registered by the
// NIC's own verbs, as what UCX registers by itself is.
class host_pages {
public:
    // Bytes; may fail, see registered().
    host_pages(const protection_domain &pd, int access, size_t length);
    ~host_pages();
    host_pages(const host_pages &)            = delete;
    host_pages &operator=(const host_pages &) = delete;

    bool registered() const { return mr_ != nullptr; }
    place at() const;

private:
    const protection_domain &pd_;
    const size_t length_;
    void *const bytes_;
    ibv_mr *mr_ = nullptr;
};

} // namespace ucx_ib_dmabuf

#endif
