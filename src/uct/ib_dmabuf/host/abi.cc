// SPDX-License-Identifier: BSD-3-Clause
#include "abi.h"
#include "library.h"

namespace ucx_ib_dmabuf {

const abi *abi::of(const library &ucx)
{
    if (ucx.symbol("uct_md_query_v2") != nullptr) { // from 1.14
        return nullptr;
    }
    if (ucx.symbol("uct_md_mkey_pack_v2") != nullptr) {
        return &abi_1_13;
    }
    return nullptr;
}

} // namespace ucx_ib_dmabuf
