// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_VERBS_H_
#define UCX_IB_DMABUF_HOST_VERBS_H_

#include <infiniband/verbs.h>

namespace ucx_ib_dmabuf {

class library;

// Those of the libibverbs that a copy of uct_ib uses: another one knows nothing
// of its devices. (libibverbs has macros of these names.)
struct verbs_functions {
    ibv_mr *(*reg_dmabuf)(ibv_pd *pd, uint64_t offset, size_t length,
                          uint64_t iova, int fd, int access);
    ibv_mr *(*reg_iova)(ibv_pd *pd, void *address, size_t length, uint64_t iova,
                        int access);
    int (*dereg)(ibv_mr *mr);
};

// A protection domain, and what to call for it.
struct protection_domain {
    ibv_pd *verbs_pd;
    const verbs_functions *verbs;
};

// As the dynamic linker has bound the uct_ib in that library. Null, or the name
// of a function that is missing.
const char *look_up_verbs(const library &uct_ib, verbs_functions *out);

} // namespace ucx_ib_dmabuf

#endif
