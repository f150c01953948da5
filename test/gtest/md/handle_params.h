// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_MD_HANDLE_PARAMS_H_
#define TEST_GTEST_MD_HANDLE_PARAMS_H_

#include <common/ucx_headers.h>

// What UCP hands over to pack a key, and to give a handle back whose keys are
// to be invalid then.
inline uct_md_mkey_pack_params_t packing(unsigned flags)
{
    uct_md_mkey_pack_params_t params{};
    params.field_mask = UCT_MD_MKEY_PACK_FIELD_FLAGS;
    params.flags      = flags;
    return params;
}

inline uct_md_mem_dereg_params_t invalidating(uct_mem_h memh,
                                              uct_completion_t *told)
{
    uct_md_mem_dereg_params_t params{};
    params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH |
                        UCT_MD_MEM_DEREG_FIELD_FLAGS |
                        UCT_MD_MEM_DEREG_FIELD_COMPLETION;
    params.flags = UCT_MD_MEM_DEREG_FLAG_INVALIDATE;
    params.memh  = memh;
    params.comp  = told;
    return params;
}

// A completion that counts how often it was told.
struct completion : uct_completion_t {
    completion() : uct_completion_t{}
    {
        count  = 1;
        status = UCS_OK;
        func   = [](uct_completion_t *self) {
            ++static_cast<completion *>(self)->told;
        };
    }

    unsigned told = 0;
};

#endif
