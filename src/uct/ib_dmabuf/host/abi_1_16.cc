// SPDX-License-Identifier: BSD-3-Clause
//
// UCX from 1.16 on: keys are packed of a part of a handle, and a registration
// with an fd is just that. UCP keeps registrations of its own above the domain.
#include "abi_v2.h"

namespace ucx_ib_dmabuf {
namespace {

using mkey_pack_function = ucs_status_t(uct_md_h md, uct_mem_h memh,
                                        void *address, size_t length,
                                        const uct_md_mkey_pack_params_t *params,
                                        void *buffer);

constexpr keys_layout handles{1, 2};

ucs_status_t md_mkey_pack(uct_md_h md, uct_mem_h memh, void *address,
                          size_t length,
                          const uct_md_mkey_pack_params_t *params,
                          void *buffer) noexcept
{
    decorated &self = decorated::of(md);

    if ((memh == nullptr) || !handle_keys::are_in(memh, handles)) {
        return self.original.op<mkey_pack_function>(op_mkey_pack)(
            md, memh, address, length, params, buffer);
    }
    return self.user->pack(
        {handle_keys::of(memh), address, length, flags_of(*params)}, buffer);
}

class generation final : public abi_v2 {
public:
    constexpr generation() : abi_v2("1.16", handles, 16, transports_1_16) {}

    void replace(std::array<void *, max_ops> &ops) const override
    {
        replace_with(ops, reinterpret_cast<void *>(&md_mkey_pack));
    }

    // UCP keeps what it registers.
    bool is_one_operation(const reg_request &) const override { return false; }

    bool keeps_handles() const override { return true; }

    bool registers_dmabuf() const override { return true; }

    ucs_status_t pack(const original_domain &with, const pack_request &request,
                      uct_mem_h memh, void *buffer) const override
    {
        uct_md_mkey_pack_params_t params{};

        params.field_mask = UCT_MD_MKEY_PACK_FIELD_FLAGS;
        params.flags      = request.flags;
        return with.op<mkey_pack_function>(op_mkey_pack)(
            with.md(), memh, request.address, request.length, &params, buffer);
    }
};

constexpr generation only;

} // namespace

const abi &abi_1_16 = only;

} // namespace ucx_ib_dmabuf
