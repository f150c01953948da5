// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_VERBS_CALLS_H_
#define UCX_IB_DMABUF_VERBS_CALLS_H_

#include <infiniband/verbs.h>

namespace ucx_ib_dmabuf {

// What is called of libibverbs and libmlx5. A protection domain belongs to the
// copy of libibverbs that made it: the table is handed in with it. Null is
// what that copy is too old for, or what is not loaded.
struct verbs_calls {
    const char *(*get_device_name)(ibv_device *);
    ibv_mr *(*reg_mr_iova)(ibv_pd *, void *, size_t, uint64_t iova, int access);
    int (*dereg_mr)(ibv_mr *);
    // Since rdma-core 34.
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *, uint64_t offset, size_t length,
                             uint64_t iova, int fd, int access);
    // libmlx5's; the last two since rdma-core 54.
    bool (*mlx5_is_supported)(ibv_device *);
    int (*mlx5_get_data_direct_sysfs_path)(ibv_context *, char *, size_t);
    ibv_mr *(*mlx5_reg_dmabuf_mr)(ibv_pd *, uint64_t offset, size_t length,
                                  uint64_t iova, int fd, int access,
                                  int mlx5_access);
};

// The libibverbs that the plug-in is linked with, and the libmlx5 that is
// loaded: a provider is once one of its devices is open.
verbs_calls find_verbs_calls();

} // namespace ucx_ib_dmabuf

#endif
