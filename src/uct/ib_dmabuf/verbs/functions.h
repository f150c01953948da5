// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_VERBS_FUNCTIONS_H_
#define UCX_IB_DMABUF_VERBS_FUNCTIONS_H_

#include <infiniband/verbs.h>

namespace ucx_ib_dmabuf {

// What is called of libibverbs and libmlx5. (libibverbs has macros of these
// names.) Null is what is not loaded, or too old.
struct verbs_functions {
    // Since rdma-core 34.
    ibv_mr *(*reg_dmabuf)(ibv_pd *pd, uint64_t offset, size_t length,
                          uint64_t iova, int fd, int access);
    ibv_mr *(*reg_iova)(ibv_pd *pd, void *address, size_t length, uint64_t iova,
                        int access);
    int (*dereg)(ibv_mr *mr);
    // libmlx5's; the last two since rdma-core 54.
    bool (*mlx5_is_supported)(ibv_device *device);
    int (*mlx5_get_data_direct_sysfs_path)(ibv_context *context, char *path,
                                           size_t size);
    ibv_mr *(*mlx5_reg_dmabuf)(ibv_pd *pd, uint64_t offset, size_t length,
                               uint64_t iova, int fd, int access,
                               int mlx5_access);
};

// A protection domain, and what to call for it: functions of the libibverbs
// that it is of, as another one knows nothing of its device.
struct protection_domain {
    ibv_pd *verbs_pd;
    const verbs_functions *verbs; // outlives what uses the domain

    const char *device_name() const { return verbs_pd->context->device->name; }
};

// The libibverbs that the plug-in is linked with, and the libmlx5 that is
// loaded: a provider is once one of its devices is open.
verbs_functions find_verbs_functions();

} // namespace ucx_ib_dmabuf

#endif
