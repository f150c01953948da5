// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_KEYS_H_
#define UCX_IB_DMABUF_HOST_KEYS_H_

#include "types.h"

namespace ucx_ib_dmabuf {

// What a memory handle begins with (uct_ib_mem_t), uct_ib's own and ours: what
// the transports read.
class handle_keys {
public:
    // Without flags of uct_ib's: its transports read none, and what of it does
    // gets its own handle, but for mem_advise(), which does nothing then.
    handle_keys(uint32_t lkey, uint32_t rkey)
        : lkey_(lkey), rkey_(rkey), flags_(mark)
    {
    }

    // Whether UCX's handle is one of ours.
    static bool are_in(uct_mem_h memh)
    {
        return (of(memh)->flags_ & mark) != 0;
    }
    static handle_keys *of(uct_mem_h memh)
    {
        return static_cast<handle_keys *>(memh);
    }
    uint32_t lkey() const { return lkey_; }
    uint32_t rkey() const { return rkey_; }

private:
    // A bit that uct_ib's own handles never have (UCT_IB_MEM_FLAG_*).
    static constexpr uint32_t mark = 1u << 30;

    uint32_t lkey_;
    uint32_t rkey_;
    uint32_t flags_;
};

} // namespace ucx_ib_dmabuf

#endif
