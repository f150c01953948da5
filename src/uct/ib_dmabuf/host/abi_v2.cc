// SPDX-License-Identifier: BSD-3-Clause
#include "abi_v2.h"
#include <cstring>

namespace ucx_ib_dmabuf {
namespace {

using query_function   = ucs_status_t(uct_md_h md, uct_md_attr_v2 *attr);
using mem_reg_function = ucs_status_t(uct_md_h md, void *address, size_t length,
                                      const uct_md_mem_reg_params *params,
                                      uct_mem_h *memh);

bool has(const uct_md_mem_reg_params &params, uint64_t field)
{
    return (params.field_mask & field) != 0;
}

uint64_t flags_of(const uct_md_mem_reg_params &params)
{
    return has(params, UCT_MD_MEM_REG_FIELD_FLAGS) ? params.flags : 0;
}

ucs_status_t md_mem_reg(uct_md_h md, void *address, size_t length,
                        const uct_md_mem_reg_params *params,
                        uct_mem_h *memh) noexcept
{
    const decorated &self = decorated::of(md);

    // All addresses, for paging; the caller's own dma-buf, whatever memory it
    // is of. UCP has none: the domain does not say that it takes them.
    if ((flags_of(*params) & UCT_MD_MEM_GVA) != 0 ||
        (has(*params, UCT_MD_MEM_REG_FIELD_DMABUF_FD) &&
         (params->dmabuf_fd >= 0))) {
        return self.original.op<mem_reg_function>(op_mem_reg)(
            md, address, length, params, memh);
    }
    return self.user->reg(address, length, memh,
                          reinterpret_cast<reg_details>(params));
}

} // namespace

void abi_v2::replace_with(std::array<void *, max_ops> &ops,
                          void *mkey_pack) const
{
    ops[op_query] = reinterpret_cast<void *>(&query_decorated<uct_md_attr_v2>);
    ops[op_mem_reg]   = reinterpret_cast<void *>(&md_mem_reg);
    ops[op_mkey_pack] = mkey_pack;
}

ucs_status_t abi_v2::query(const original_domain &from,
                           domain_attributes *out) const
{
    union {
        uct_md_attr_v2 begin;
        char whole[4096]; // it grows with each version
    } attr;

    memset(&attr, 0, sizeof(attr));
    attr.begin.field_mask = ~uint64_t{0};
    const ucs_status_t status =
        from.op<query_function>(op_query)(from.md(), &attr.begin);
    *out = {attr.begin.flags, attr.begin.reg_mem_types};
    return status;
}

reg_request abi_v2::request(void *address, size_t length,
                            reg_details details) const
{
    const auto *params =
        reinterpret_cast<const uct_md_mem_reg_params *>(details);
    reg_request made{address, length, flags_of(*params)};

    made.params = params;
    if (has(*params, UCT_MD_MEM_REG_FIELD_MEM_TYPE)) {
        made.memory_type = params->mem_type;
    }
    return made;
}

ucs_status_t abi_v2::reg(const original_domain &with,
                         const reg_request &request, uct_mem_h *memh) const
{
    uct_md_mem_reg_params made{};
    const auto *params =
        static_cast<const uct_md_mem_reg_params *>(request.params);

    if (params == nullptr) {
        made.field_mask = UCT_MD_MEM_REG_FIELD_FLAGS;
        made.flags      = request.flags;
        if (request.fd >= 0) {
            made.field_mask |= UCT_MD_MEM_REG_FIELD_DMABUF_FD |
                               UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET;
            made.dmabuf_fd     = request.fd;
            made.dmabuf_offset = request.offset;
        }
        if (request.memory_type) {
            made.field_mask |= UCT_MD_MEM_REG_FIELD_MEM_TYPE;
            made.mem_type = *request.memory_type;
        }
        params = &made;
    }
    return with.op<mem_reg_function>(op_mem_reg)(with.md(), request.address,
                                                 request.length, params, memh);
}

} // namespace ucx_ib_dmabuf
