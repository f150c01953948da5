// SPDX-License-Identifier: BSD-3-Clause
//
// UCX 1.14 and 1.15: keys are packed of whole handles, which have one word more
// before the remote key. Their own registration with an fd goes through a cache
// that looks at addresses only: ours does not use it.
#include "abi_v2.h"
#include "caller.h"

namespace ucx_ib_dmabuf {
namespace {

using mkey_pack_function = ucs_status_t(uct_md_h md, uct_mem_h memh,
                                        const uct_md_mkey_pack_params_t *params,
                                        void *buffer);

constexpr keys_layout handles{2, 5};

ucs_status_t md_mkey_pack(uct_md_h md, uct_mem_h memh,
                          const uct_md_mkey_pack_params_t *params,
                          void *buffer) noexcept
{
    decorated &self = decorated::of(md);

    if ((memh == nullptr) || !handle_keys::are_in(memh, handles)) {
        return self.original.op<mkey_pack_function>(op_mkey_pack)(
            md, memh, params, buffer);
    }
    return self.user->pack(
        {handle_keys::of(memh), nullptr, 0, flags_of(*params)}, buffer);
}

class generation final : public abi_v2 {
public:
    constexpr generation(const char *version, size_t pd,
                         transports_layout where)
        : abi_v2(version, handles, pd, where)
    {
    }

    void replace(std::array<void *, max_ops> &ops) const override
    {
        replace_with(ops, reinterpret_cast<void *>(&md_mkey_pack));
    }

    bool is_one_operation(const reg_request &request) const override
    {
        return ucp_registers_for_one_operation(request.flags);
    }
};

constexpr generation of_1_14("1.14", 32, transports_1_13);
constexpr generation of_1_15("1.15", 24, transports_1_15);

} // namespace

const abi &abi_1_14 = of_1_14;
const abi &abi_1_15 = of_1_15;

} // namespace ucx_ib_dmabuf
