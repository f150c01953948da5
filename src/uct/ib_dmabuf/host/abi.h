// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_ABI_H_
#define UCX_IB_DMABUF_HOST_ABI_H_

#include "domain.h"
#include "transport_types.h"
#include <array>
#include <forward_list>
#include <memory>

namespace ucx_ib_dmabuf {

class library;

// uct_md_ops_t: those that stand at the same place in every UCX. What follows
// differs, and is not ours.
enum md_op {
    op_close     = 0,
    op_query     = 1,
    op_mem_reg   = 5,
    op_mem_dereg = 6,
    op_mkey_pack = 8,
};
constexpr size_t max_ops = 16;

// What UCP wants to be told failures of endpoints by; the domain hears of them
// first.
struct failure_handler {
    uct_error_handler_t *handler;
    void *arg;
    domain *of;

    bool operator==(const failure_handler &) const = default;
};

// A memory domain of uct_ib's with our operations in place of its own.
struct decorated {
    std::array<void *, max_ops> ops; // first: the domain points to it
    original_domain original;
    keys_layout layout; // original's
    std::unique_ptr<domain> user;
    // Of its interfaces, which UCX closes before it.
    std::forward_list<failure_handler> handlers{};

    static decorated &of(uct_md_h md)
    {
        return *reinterpret_cast<decorated *>(md->ops);
    }
    // Null: it is none, but as uct_ib opened it.
    static decorated *find(uct_md_h md);
};

// query(), with a generation's own attributes: uct_ib's, as the user changes
// them.
template <class Attributes>
ucs_status_t query_decorated(uct_md_h md, Attributes *attr) noexcept
{
    using query_function = ucs_status_t(uct_md_h, Attributes *);

    decorated &self = decorated::of(md);
    const ucs_status_t status =
        self.original.op<query_function>(op_query)(md, attr);

    if (status == UCS_OK) {
        domain_attributes neutral{attr->flags, attr->reg_mem_types};
        self.user->query(&neutral);
        attr->flags         = neutral.flags;
        attr->reg_mem_types = neutral.reg_mem_types;
    }
    return status;
}

// Gives the domain operations that call `user`'s.
void put_in_place(uct_md_h md, const original_domain &original,
                  std::unique_ptr<domain> user);

inline unsigned flags_of(const uct_md_mkey_pack_params_t &params)
{
    return ((params.field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) != 0)
               ? params.flags
               : 0;
}

// What differs between UCX's generations in a memory domain. There is a file
// for each that is known, with functions of that generation's signatures.
class abi {
public:
    // The one of a UCX; null if that is too old. Told by what it exports, as
    // vendors ship what lies between two versions.
    static const abi *of(const library &ucx);

    constexpr abi(const char *version, keys_layout keys, size_t pd,
                  transports_layout where)
        : since(version), layout(keys), pd_offset(pd), transports(where)
    {
    }

    const char *const since; // the first version with it
    const keys_layout layout;
    const size_t pd_offset; // of uct_ib_md_t
    const transports_layout transports;

    // Puts our functions in the place of uct_ib's.
    virtual void replace(std::array<void *, max_ops> &ops) const    = 0;
    virtual ucs_status_t query(const original_domain &from,
                               domain_attributes *out) const        = 0;
    virtual reg_request request(void *address, size_t length,
                                reg_details details) const          = 0;
    virtual ucs_status_t reg(const original_domain &with,
                             const reg_request &request,
                             uct_mem_h *memh) const                 = 0;
    virtual bool is_one_operation(const reg_request &request) const = 0;
    // UCP keeps handles above the domain: its cache answers from them, without
    // a call of reg(), until an event of memory drops them.
    virtual bool keeps_handles() const { return false; }
    // uct_ib's own registration is to be used for our dma-bufs.
    virtual bool registers_dmabuf() const { return false; }
    // Where that is so: a key of uct_ib's own handle.
    virtual ucs_status_t pack(const original_domain &with,
                              const pack_request &request, uct_mem_h memh,
                              void *buffer) const
    {
        return UCS_ERR_UNSUPPORTED;
    }

protected:
    ~abi() = default;
};

extern const abi &abi_1_13;
extern const abi &abi_1_14; // the same with another place for the domain
extern const abi &abi_1_15;
extern const abi &abi_1_16; // and later

} // namespace ucx_ib_dmabuf

#endif
