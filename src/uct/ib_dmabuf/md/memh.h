// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_MEMH_H_
#define UCX_IB_DMABUF_MD_MEMH_H_

#include "../cache/cache.h"
#include "../host/keys.h"
#include <atomic>
#include <memory>

namespace ucx_ib_dmabuf {

struct registration;

// What UCX gets as a memory handle: what uct_ib's transports read the keys
// from, and ours behind it. What providers have there is read by operations
// only that never see our handles. One for each mem_reg, as each may be
// invalidated by itself.
class memh : public handle_keys {
public:
    using handle_keys::handle_keys;

    uct_mem_h to_uct() { return static_cast<handle_keys *>(this); }

    // What was asked for, and the cache's region around it.
    uintptr_t address  = 0;
    size_t length      = 0;
    const region *used = nullptr;

    // Of that range alone, once a remote key was packed that may be
    // invalidated while others use the region.
    std::atomic<registration *> own{nullptr};
};

} // namespace ucx_ib_dmabuf

#endif
