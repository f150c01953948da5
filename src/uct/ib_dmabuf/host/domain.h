// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_DOMAIN_H_
#define UCX_IB_DMABUF_HOST_DOMAIN_H_

#include "keys.h"
#include "types.h"
#include "verbs.h"
#include <cstddef>
#include <memory>
#include <optional>

// A memory domain of uct_ib's, without what differs from one UCX to the next:
// what uct_ib has (original_domain), and what takes its place (domain).
namespace ucx_ib_dmabuf {

class abi;
class host;

// What else is said of a registration beside its range: flags or parameters, as
// UCX hands them over. Only the generation can read it.
using reg_details = uintptr_t;

// A registration as UCX asked for it.
struct reg_request {
    void *address;
    size_t length;
    uint64_t flags; // UCT_MD_MEM_*
    // A dma-buf of it; -1 in what UCX asks of us: a caller's own is uct_ib's.
    int fd        = -1;
    size_t offset = 0;
    // If he says it (from 1.22).
    std::optional<ucs_memory_type_t> memory_type = std::nullopt;
    // What UCX handed over of flags and the rest, to be passed on as it is.
    // Null in ours: whoever changes any of them clears it.
    const void *params = nullptr;
};

// A remote key of a handle of ours, or of some part of it (from 1.16).
struct pack_request {
    handle_keys *handle;
    void *address; // null before 1.16
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
    reg_request request(void *address, size_t length,
                        reg_details details) const;
    ucs_status_t reg(const reg_request &request, uct_mem_h *memh) const;
    ucs_status_t dereg(uct_mem_h memh) const;
    // Whether UCP keeps handles for later operations, which do not come to
    // reg() then.
    bool keeps_handles() const;
    // Has it drop those of the range, GPU memory, before its next operation.
    // Also in reg() and in events of memory.
    void let_go(uintptr_t address, size_t length) const;
    // Whether uct_ib registers dma-bufs by itself, in a way that is ours to
    // use: reg() with an fd, with flags that it takes then. Otherwise we do.
    bool registers_dmabuf() const;
    // A remote key of uct_ib's own handle. Not thread-safe for one handle.
    ucs_status_t pack(const pack_request &request, uct_mem_h memh,
                      void *buffer) const;
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
    // The handle begins with handle_keys, or is uct_ib's. The details are for
    // original_domain::request(), which a hit does without.
    virtual ucs_status_t reg(void *address, size_t length, uct_mem_h *memh,
                             reg_details details) noexcept = 0;
    // Only of handles of ours. The completion, if there is one, is told when
    // the handle's remote keys are invalid.
    virtual void dereg(handle_keys *handle,
                       uct_completion_t *completion) noexcept = 0;
    virtual ucs_status_t pack(const pack_request &request,
                              void *buffer) noexcept          = 0;
    // An endpoint of the device has failed in a way in which what is registered
    // may have its part. In any thread that makes progress.
    virtual void failed(ucs_status_t status) noexcept = 0;
};

// Called where uct_ib opened a domain; null leaves it as it is.
using make_domain =
    std::unique_ptr<domain> (*)(const original_domain &original);

} // namespace ucx_ib_dmabuf

#endif
