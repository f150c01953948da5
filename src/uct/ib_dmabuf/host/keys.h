// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_KEYS_H_
#define UCX_IB_DMABUF_HOST_KEYS_H_

#include "types.h"
#include <cstddef>

namespace ucx_ib_dmabuf {

// Where the transports of one UCX find what they read of a memory handle
// (uct_ib_mem_t): in which of its words. The local key is always the first.
struct keys_layout {
    unsigned remote;
    unsigned flags;
};

// What a handle of ours begins with, for every layout.
class handle_keys {
public:
    // Without flags of uct_ib's: its transports read none, and what of it does
    // gets its own handle, but for mem_advise(), which does nothing then.
    handle_keys(const keys_layout &layout, uint32_t lkey, uint32_t rkey)
        : words_{lkey, invalid, invalid, invalid, invalid, invalid}
    {
        words_[layout.remote] = rkey;
        words_[layout.flags]  = mark;
    }

    // Whether UCX's handle is one of ours.
    static bool are_in(uct_mem_h memh, const keys_layout &layout)
    {
        return (static_cast<const uint32_t *>(memh)[layout.flags] & mark) != 0;
    }
    static handle_keys *of(uct_mem_h memh)
    {
        return static_cast<handle_keys *>(memh);
    }
    uint32_t lkey() const { return words_[0]; }
    uint32_t rkey(const keys_layout &layout) const
    {
        return words_[layout.remote];
    }

    static constexpr uint32_t invalid = ~0u; // UCT_IB_INVALID_MKEY

private:
    // A bit that uct_ib's own handles never have (UCT_IB_MEM_FLAG_*).
    static constexpr uint32_t mark = 1u << 30;

    uint32_t words_[6];
};

// uct_ib_md_pack_rkey(): the same in every UCX.
inline void pack_rkey(uint32_t rkey, uint32_t atomic_rkey, void *buffer)
{
    *static_cast<uint64_t *>(buffer) = (uint64_t{atomic_rkey} << 32) | rkey;
}

} // namespace ucx_ib_dmabuf

#endif
