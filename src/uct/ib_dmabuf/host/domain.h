// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_DOMAIN_H_
#define UCX_IB_DMABUF_HOST_DOMAIN_H_

#include "keys.h"
#include "types.h"
#include "verbs.h"
#include <cstddef>
#include <memory>

// A memory domain of uct_ib's, without what differs from one UCX to the next:
// what uct_ib has (original_domain), and what takes its place (domain).
namespace ucx_ib_dmabuf {

class abi;
class host;

// A registration as UCX asked for it.
struct reg_request {
    void *address;
    size_t length;
    uint64_t flags; // UCT_MD_MEM_*
    // The caller's own dma-buf of it; -1 if he has none (always so in 1.13).
    int fd        = -1;
    size_t offset = 0;
    // What UCX handed over, where that is more than this; null in ours.
    const void *params = nullptr;
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
                    bool relaxed_order);

    const host &copy() const { return copy_; }
    // The device's, for messages.
    const char *name() const { return pd_.device_name(); }
    const protection_domain &pd() const { return pd_; }
    // PCI_RELAXED_ORDERING; for those who register by themselves.
    bool relaxed_order() const { return relaxed_order_; }
    // Where transports look for keys in handles.
    const keys_layout &layout() const;

    ucs_status_t query(domain_attributes *out) const;
    ucs_status_t reg(const reg_request &request, uct_mem_h *memh) const;
    ucs_status_t dereg(uct_mem_h memh) const;
    // Where UCP registers for one operation, which ends with it; false also
    // where that cannot be told. To be asked in reg(). May take microseconds.
    bool is_one_operation(const reg_request &request) const;

    // For the generations' own functions.
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
    const bool relaxed_order_;
};

// What UCX calls in place of uct_ib's operations. Destroyed before uct_ib
// closes the domain.
class domain {
public:
    virtual ~domain() = default;

    // Changes what uct_ib said.
    virtual void query(domain_attributes *attributes) noexcept = 0;
    // The handle begins with handle_keys, or is uct_ib's.
    virtual ucs_status_t reg(const reg_request &request,
                             uct_mem_h *memh) noexcept = 0;
    // Only of handles of ours. The completion, if there is one, is told when
    // the handle's remote keys are invalid.
    virtual void dereg(handle_keys *handle,
                       uct_completion_t *completion) noexcept = 0;
    // A remote key, and whether dereg() is to invalidate it.
    virtual ucs_status_t pack(handle_keys *handle, bool invalidate,
                              void *buffer) noexcept = 0;
};

// Called where uct_ib opened a domain; null leaves it as it is.
using make_domain =
    std::unique_ptr<domain> (*)(const original_domain &original);

} // namespace ucx_ib_dmabuf

#endif
