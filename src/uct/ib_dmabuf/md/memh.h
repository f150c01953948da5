// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_MEMH_H_
#define UCX_IB_DMABUF_MD_MEMH_H_

#include "../cache/cache.h"
#include "staging.h"
#include "ucx_1_13.h"
#include <atomic>
#include <memory>
#include <vector>

namespace ucx_ib_dmabuf {

// What UCX gets as a memory handle: the layout that uct_ib's transports read
// the keys from, with ours in front. One for each registration, shared by its
// users; or one for a single operation, if that is staged.
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

    ibv_mr *mr = nullptr;
    // The cache's region, the same for all users; null if staged.
    std::atomic<const region *> used{nullptr};
    std::unique_ptr<staging_buffer> staged;
    // To tell once the keys are invalid. Under the NIC's lock.
    std::vector<uct_completion_t *> invalidated;

private:
    // A bit that uct_ib's own handles never have (UCT_IB_MEM_FLAG_*).
    static constexpr uint32_t mark = 1u << 30;

    memh() = default;

    uct_ib_mem_t *ib_ = nullptr; // lies behind this object
};

} // namespace ucx_ib_dmabuf

#endif
