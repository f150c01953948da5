// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include "verbs.h"
#include <cstddef>
#include <memory>

// A memory domain of uct_ib's: what uct_ib has (original_domain), and what
// takes its place (domain).
namespace ucx_ib_dmabuf {

class host;

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

// What UCX says of a registration beside its range.
using reg_details = const uct_md_mem_reg_params_t *;

// A registration as UCX asked for it.
struct reg_request {
    void *address;
    size_t length;
    reg_details details;

    uint64_t flags() const // UCT_MD_MEM_*
    {
        return ((details->field_mask & UCT_MD_MEM_REG_FIELD_FLAGS) != 0)
                   ? details->flags
                   : 0;
    }
};

// A remote key of a handle of ours, or of some part of it.
struct pack_request {
    handle_keys *handle;
    void *address;
    size_t length;
    unsigned flags; // UCT_MD_MKEY_PACK_FLAG_*

    // Whether dereg() is to invalidate it.
    bool to_be_invalidated() const
    {
        return (flags & (UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA |
                         UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO)) != 0;
    }
};

// What a memory domain says of itself, as far as we change it.
struct domain_attributes {
    uint64_t flags;         // UCT_MD_FLAG_*
    uint64_t reg_mem_types; // bits of ucs_memory_type_t
};

// How UCX opened it, and its own operations. Thread-safe; lives until the
// domain is closed.
class original_domain {
public:
    original_domain(const host &of, uct_md_h md, ibv_pd *pd,
                    bool tries_data_direct);

    const host &copy() const { return copy_; }
    // The device's, for messages.
    const char *name() const { return pd_.device_name(); }
    const protection_domain &pd() const { return pd_; }
    // Whether uct_ib registers each dma-buf with Data Direct first, where the
    // device has it (from 1.20, UCX_IB_DIRECT_NIC).
    bool tries_data_direct() const { return tries_data_direct_; }

    ucs_status_t query(domain_attributes *out) const;
    ucs_status_t reg(const reg_request &request, uct_mem_h *memh) const;
    ucs_status_t dereg(uct_mem_h memh) const;
    // Has UCP, which keeps handles for later operations, drop those of the
    // range, GPU memory, before its next operation. Also in reg() and in events
    // of memory.
    void let_go(uintptr_t address, size_t length) const;
    // A remote key of uct_ib's own handle. Not thread-safe for one handle.
    ucs_status_t pack(const pack_request &request, uct_mem_h memh,
                      void *buffer) const;

    // For our functions in place of its own.
    uct_md_h md() const { return md_; }
    void **ops() const { return ops_; }
    template <class Function>
    Function *op(unsigned which) const
    {
        return reinterpret_cast<Function *>(ops_[which]);
    }

private:
    const host &copy_;
    const uct_md_h md_;
    void **const ops_; // uct_ib's
    const protection_domain pd_;
    const bool tries_data_direct_;
};

// What UCX calls in place of uct_ib's operations. Destroyed before uct_ib
// closes the domain.
class domain {
public:
    virtual ~domain() = default;

    // Changes what uct_ib said.
    virtual void query(domain_attributes *attributes) noexcept = 0;
    // The handle begins with handle_keys, or is uct_ib's.
    virtual ucs_status_t reg(void *address, size_t length, uct_mem_h *memh,
                             reg_details details) noexcept = 0;
    // Only of handles of ours. Remote keys that were packed to be invalidated
    // are invalid when it returns.
    virtual void dereg(handle_keys *handle) noexcept = 0;
    virtual ucs_status_t pack(const pack_request &request,
                              void *buffer) noexcept = 0;
    // An endpoint of the device has failed in a way in which what is registered
    // may have its part. In any thread that makes progress.
    virtual void failed(ucs_status_t status) noexcept = 0;
};

// Called where uct_ib opened a domain; null leaves it as it is.
using make_domain =
    std::unique_ptr<domain> (*)(const original_domain &original);

} // namespace ucx_ib_dmabuf
