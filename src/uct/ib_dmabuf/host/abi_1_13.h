// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_ABI_1_13_H_
#define UCX_IB_DMABUF_HOST_ABI_1_13_H_

#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// uct_md_attr_t; UCT hands over a whole one.
struct uct_md_attr_1_13 {
    uint64_t max_alloc;
    size_t max_reg;
    uint64_t flags;
    uint64_t reg_mem_types;
    uint64_t detect_mem_types;
    uint64_t alloc_mem_types;
    uint64_t access_mem_types;
    double reg_cost[2];
    char component_name[16];
    size_t rkey_packed_size;
    uint64_t local_cpus[16];
};

} // namespace ucx_ib_dmabuf

#endif
