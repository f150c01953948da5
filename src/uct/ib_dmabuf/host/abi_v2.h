// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_ABI_V2_H_
#define UCX_IB_DMABUF_HOST_ABI_V2_H_

#include "abi.h"

// What UCX 1.14 and all later ones have in common: a registration takes
// parameters, attributes have a mask.
namespace ucx_ib_dmabuf {

// The begin of uct_md_attr_v2_t; UCT hands over a whole one of its own.
struct uct_md_attr_v2 {
    uint64_t field_mask;
    uint64_t max_alloc;
    size_t max_reg;
    uint64_t flags;
    uint64_t reg_mem_types;
};

enum : uint64_t {
    UCT_MD_MEM_REG_FIELD_FLAGS         = 1u << 0,
    UCT_MD_MEM_REG_FIELD_DMABUF_FD     = 1u << 1,
    UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET = 1u << 2,
    UCT_MD_MEM_REG_FIELD_MEM_TYPE      = 1u << 3, // from 1.22
};

struct uct_md_mem_reg_params {
    uint64_t field_mask;
    uint64_t flags;
    int dmabuf_fd;
    size_t dmabuf_offset;
    ucs_memory_type_t mem_type; // from 1.22, which others ignore
};

class abi_v2 : public abi {
public:
    using abi::abi;

    // With this function in mkey_pack's place.
    void replace_with(std::array<void *, max_ops> &ops, void *mkey_pack) const;
    ucs_status_t query(const original_domain &from,
                       domain_attributes *out) const override;
    reg_request request(void *address, size_t length,
                        reg_details details) const override;
    ucs_status_t reg(const original_domain &with, const reg_request &request,
                     uct_mem_h *memh) const override;
};

} // namespace ucx_ib_dmabuf

#endif
