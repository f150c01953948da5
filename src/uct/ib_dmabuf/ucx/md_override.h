// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include "verbs.h"
#include <cstddef>
#include <memory>

namespace ucx_ib_dmabuf {

class ucx_instance;

// The start of a memory handle (uct_ib_mem_t), uct_ib's or ours: the part that
// transports read.
class handle_keys {
public:
    // Sets none of uct_ib's flags: transports read none, and mem_advise() does
    // nothing then. Other operations get uct_ib's own handle.
    handle_keys(uint32_t lkey, uint32_t rkey)
        : lkey_(lkey), rkey_(rkey), flags_(mark)
    {
    }

    // Whether the plug-in made the handle.
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
    // A bit that uct_ib never sets in its own handles (UCT_IB_MEM_FLAG_*).
    static constexpr uint32_t mark = 1u << 30;

    uint32_t lkey_;
    uint32_t rkey_;
    uint32_t flags_;
};

struct reg_request {
    void *address;
    size_t length;
    const uct_md_mem_reg_params_t *details;

    uintptr_t start() const { return reinterpret_cast<uintptr_t>(address); }
    uint64_t flags() const // UCT_MD_MEM_*
    {
        return ((details->field_mask & UCT_MD_MEM_REG_FIELD_FLAGS) != 0)
                   ? details->flags
                   : 0;
    }
};

// A request for a remote key of one of our handles, or of a part of it.
struct pack_request {
    handle_keys *handle;
    void *address;
    size_t length;
    unsigned flags; // UCT_MD_MKEY_PACK_FLAG_*

    // Whether dereg() has to invalidate the key.
    bool to_be_invalidated() const
    {
        return (flags & (UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA |
                         UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO)) != 0;
    }
};

// The attributes of a memory domain that the plug-in changes.
struct md_attributes {
    uint64_t flags;         // UCT_MD_FLAG_*
    uint64_t reg_mem_types; // bits of ucs_memory_type_t
};

// A domain as uct_ib opened it, with uct_ib's operations. Thread-safe; lives
// longer than the md_ops that replace them.
class saved_md_ops {
public:
    saved_md_ops(const ucx_instance &of, uct_md_h md, ibv_pd *pd,
                 bool tries_data_direct);
    ~saved_md_ops()                               = default;
    saved_md_ops(const saved_md_ops &)            = delete;
    saved_md_ops &operator=(const saved_md_ops &) = delete;

    const ucx_instance &instance() const { return instance_; }
    // The NIC's name, for messages.
    const char *name() const { return pd_.device_name(); }
    const protection_domain &pd() const { return pd_; }
    // Whether uct_ib registers each dma-buf with Data Direct first if the
    // device supports it (from 1.20, UCX_IB_DIRECT_NIC).
    bool tries_data_direct() const { return tries_data_direct_; }

    ucs_status_t query(md_attributes *out) const;
    ucs_status_t reg(const reg_request &request, uct_mem_h *memh) const;
    ucs_status_t dereg(uct_mem_h memh) const;
    // Makes UCP, which caches handles for later operations, drop the handles of
    // this range of GPU memory before its next operation. May be called in
    // reg() and in memory events.
    void drop_from_ucp_cache(uintptr_t address, size_t length) const;
    // Packs a key of uct_ib's own handle. Not thread-safe for one handle.
    ucs_status_t pack(const pack_request &request, uct_mem_h memh,
                      void *buffer) const;

    void **ops() const { return ops_; }
    template <class Function>
    Function *op(unsigned which) const
    {
        return reinterpret_cast<Function *>(ops_[which]);
    }

private:
    const ucx_instance &instance_;
    const uct_md_h md_;
    void **const ops_; // uct_ib's
    const protection_domain pd_;
    const bool tries_data_direct_;
};

// Replaces uct_ib's operations. Destroyed before uct_ib closes the domain.
class md_ops {
public:
    virtual ~md_ops() = default;

    // Changes the attributes that uct_ib returned.
    virtual void query(md_attributes *attributes) noexcept = 0;
    // The new handle begins with handle_keys, or is uct_ib's own.
    virtual ucs_status_t reg(const reg_request &request,
                             uct_mem_h *memh) noexcept = 0;
    // Only for our handles. On return, remote keys that were packed to be
    // invalidated are invalid.
    virtual void dereg(handle_keys *handle) noexcept = 0;
    virtual ucs_status_t pack(const pack_request &request,
                              void *buffer) noexcept = 0;
    // An endpoint of the NIC failed with an error that a registration may
    // have caused. Called by any thread that progresses a worker.
    virtual void failed(ucs_status_t status) noexcept = 0;
};

// Called for each opened domain. Returns nullptr to leave it unchanged.
using make_md_ops = std::unique_ptr<md_ops> (*)(const saved_md_ops &original);

// Replaces the domain's operations by what `make` returns. Also makes the
// component's transports report failures to their domain. Returns false if the
// domain stays unchanged.
bool install_override(const ucx_instance &of, uct_md_h md, ibv_pd *pd,
                      bool tries_data_direct, make_md_ops make);

} // namespace ucx_ib_dmabuf
