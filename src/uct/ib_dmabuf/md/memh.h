// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_MEMH_H_
#define UCX_IB_DMABUF_MD_MEMH_H_

#include "../cache/cache.h"
#include "staging.h"
#include "ucx_1_13.h"
#include <atomic>
#include <memory>

namespace ucx_ib_dmabuf {

struct registration;

// What UCX gets as a memory handle: the layout that uct_ib's transports read
// the keys from, with ours in front. One for each mem_reg, as each may be
// invalidated by itself.
class memh {
public:
    // As large as uct_ib and its provider expect; null without memory.
    static memh *create(const uct_ib_md_t *md, uint32_t lkey, uint32_t rkey);
    static void destroy(memh *handle);

    // Whether UCX's handle is one of ours.
    static bool is_ours(uct_mem_h uct)
    {
        return (static_cast<uct_ib_mem_t *>(uct)->flags & mark) != 0;
    }
    static memh *from_uct(uct_mem_h uct);
    uct_mem_h to_uct() { return ib_; }
    uint32_t rkey() const { return ib_->rkey; }

    // What was asked for, and the cache's region around it; null if staged.
    uintptr_t address  = 0;
    size_t length      = 0;
    const region *used = nullptr;
    std::unique_ptr<staging_buffer> staged;

    // Of that range alone, once a remote key was packed that may be
    // invalidated while others use the region.
    std::atomic<registration *> own{nullptr};
    // The region's own remote key was packed, too.
    std::atomic<bool> shares_key{false};

    // In the list of those that wait for the region's keys to become invalid.
    uct_completion_t *invalidated = nullptr;
    memh *next                    = nullptr;

private:
    // A bit that uct_ib's own handles never have (UCT_IB_MEM_FLAG_*).
    static constexpr uint32_t mark = 1u << 30;

    memh() = default;

    uct_ib_mem_t *ib_ = nullptr; // lies behind this object
};

} // namespace ucx_ib_dmabuf

#endif
