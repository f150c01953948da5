// SPDX-License-Identifier: BSD-3-Clause
//
// UCX 1.13: a registration gets no memory type and no dma-buf, and a domain's
// attributes have no mask.
#include "abi_1_13.h"
#include "abi.h"
#include "caller.h"

namespace ucx_ib_dmabuf {
namespace {

using query_function   = ucs_status_t(uct_md_h md, uct_md_attr_1_13 *attr);
using mem_reg_function = ucs_status_t(uct_md_h md, void *address, size_t length,
                                      unsigned flags, uct_mem_h *memh);
using mkey_pack_function = ucs_status_t(uct_md_h md, uct_mem_h memh,
                                        const uct_md_mkey_pack_params_t *params,
                                        void *buffer);

ucs_status_t md_mem_reg(uct_md_h md, void *address, size_t length,
                        unsigned flags, uct_mem_h *memh) noexcept
{
    const decorated &self = decorated::of(md);

    if ((flags & UCT_MD_MEM_GVA) != 0) { // all addresses, for paging
        return self.original.op<mem_reg_function>(op_mem_reg)(
            md, address, length, flags, memh);
    }
    return self.user->reg(address, length, memh, flags);
}

ucs_status_t md_mkey_pack(uct_md_h md, uct_mem_h memh,
                          const uct_md_mkey_pack_params_t *params,
                          void *buffer) noexcept
{
    decorated &self = decorated::of(md);

    if (memh == nullptr) {
        return UCS_ERR_INVALID_PARAM; // as UCT, where it checks parameters
    }
    if (!handle_keys::are_in(memh, abi_1_13.layout)) {
        return self.original.op<mkey_pack_function>(op_mkey_pack)(
            md, memh, params, buffer);
    }
    return self.user->pack(
        {handle_keys::of(memh), nullptr, 0, flags_of(*params)}, buffer);
}

class generation final : public abi {
public:
    constexpr generation() : abi("1.13", {1, 4}, 32, transports_1_13) {}

    void replace(std::array<void *, max_ops> &ops) const override
    {
        ops[op_query] =
            reinterpret_cast<void *>(&query_decorated<uct_md_attr_1_13>);
        ops[op_mem_reg]   = reinterpret_cast<void *>(&md_mem_reg);
        ops[op_mkey_pack] = reinterpret_cast<void *>(&md_mkey_pack);
    }

    ucs_status_t query(const original_domain &from,
                       domain_attributes *out) const override
    {
        uct_md_attr_1_13 attr{};
        const ucs_status_t status =
            from.op<query_function>(op_query)(from.md(), &attr);

        *out = {attr.flags, attr.reg_mem_types};
        return status;
    }

    reg_request request(void *address, size_t length,
                        reg_details details) const override
    {
        return {address, length, details};
    }

    ucs_status_t reg(const original_domain &with, const reg_request &request,
                     uct_mem_h *memh) const override
    {
        return with.op<mem_reg_function>(op_mem_reg)(
            with.md(), request.address, request.length,
            static_cast<unsigned>(request.flags), memh);
    }

    bool is_one_operation(const reg_request &request) const override
    {
        return ucp_registers_for_one_operation(request.flags);
    }
};

constexpr generation only;

} // namespace

const abi &abi_1_13 = only;

} // namespace ucx_ib_dmabuf
