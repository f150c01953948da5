// SPDX-License-Identifier: BSD-3-Clause
#include "abi.h"
#include "library.h"

namespace ucx_ib_dmabuf {

const abi *abi::of(const library &ucx)
{
    const struct {
        const char *symbol; // that it brought
        const abi *found;
    } generations[] = {{"uct_rkey_compare", &abi_1_16},
                       {"ucs_config_sscanf_uint_enum", &abi_1_15},
                       {"uct_md_query_v2", &abi_1_14},
                       {"uct_md_mkey_pack_v2", &abi_1_13}};

    for (const auto &each : generations) {
        if (ucx.symbol(each.symbol) != nullptr) {
            return each.found;
        }
    }
    return nullptr;
}

} // namespace ucx_ib_dmabuf
