// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/ib_dmabuf/ucx/types.h>

// UCP's parameters for packing a key, and for a deregistration that invalidates
// the handle's keys.
inline ucx_ib_dmabuf::uct_md_mkey_pack_params_t packing(unsigned flags)
{
    return {ucx_ib_dmabuf::UCT_MD_MKEY_PACK_FIELD_FLAGS, flags};
}

inline ucx_ib_dmabuf::uct_md_mem_dereg_params_t
invalidating(void *memh, ucx_ib_dmabuf::uct_completion_t *told)
{
    using namespace ucx_ib_dmabuf;

    return {UCT_MD_MEM_DEREG_FIELD_MEMH | UCT_MD_MEM_DEREG_FIELD_FLAGS |
                UCT_MD_MEM_DEREG_FIELD_COMPLETION,
            UCT_MD_MEM_DEREG_FLAG_INVALIDATE, memh, told};
}

// A completion that counts its calls.
struct completion : ucx_ib_dmabuf::uct_completion_t {
    completion() : uct_completion_t{}
    {
        count  = 1;
        status = ucx_ib_dmabuf::UCS_OK;
        func   = [](ucx_ib_dmabuf::uct_completion_t *self) {
            ++static_cast<completion *>(self)->told;
        };
    }

    unsigned told = 0;
};
