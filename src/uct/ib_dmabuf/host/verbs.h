// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace ucx_ib_dmabuf {

class library;

// What makes a connection. All are there, or none of them is to be called.
struct connection_functions {
    int (*query_device)(ibv_context *context, ibv_device_attr *attr);
    // As exported: of what is in the structure now it knows the beginning.
    int (*query_port)(ibv_context *context, uint8_t port, ibv_port_attr *attr);
    int (*query_gid)(ibv_context *context, uint32_t port, uint32_t index,
                     ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
    int (*query_pkey)(ibv_context *context, uint8_t port, int index,
                      __be16 *key);
    ibv_cq *(*create_cq)(ibv_context *context, int entries, void *cq_context,
                         ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(ibv_cq *cq);
    ibv_qp *(*create_qp)(ibv_pd *pd, ibv_qp_init_attr *attr);
    int (*modify_qp)(ibv_qp *qp, ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(ibv_qp *qp);

    bool complete() const;
};

// Those of the libibverbs that a copy of uct_ib uses: another one knows nothing
// of its devices. (libibverbs has macros of these names.)
struct verbs_functions {
    ibv_mr *(*reg_iova)(ibv_pd *pd, void *address, size_t length, uint64_t iova,
                        int access);
    int (*dereg)(ibv_mr *mr);
    connection_functions connection{};
};

// Those of the libmlx5 that drives a device. Null is what it has not: any other
// driver none, the second one is since rdma-core 54.
struct mlx5_functions {
    bool (*is_supported)(ibv_device *device);
    int (*get_data_direct_sysfs_path)(ibv_context *context, char *path,
                                      size_t size);
};

// A protection domain, and what to call for it.
struct protection_domain {
    ibv_pd *verbs_pd;
    const verbs_functions *verbs; // outlives what uses the domain
    mlx5_functions mlx5{};

    const char *device_name() const { return verbs_pd->context->device->name; }
};

// The function that the dynamic linker has bound calls of the library to: of a
// preloaded library, or of the libibverbs that it uses. Null if there is none.
void *bound_verb(const library &uct_ib, const char *name);
// As the dynamic linker has bound the uct_ib in that library. Null, or the name
// of a function that is missing.
const char *look_up_verbs(const library &uct_ib, verbs_functions *out);
// By the functions that the device was opened with: whatever that libmlx5's
// name is, and whoever has loaded it.
mlx5_functions look_up_mlx5(const ibv_context &context);

} // namespace ucx_ib_dmabuf
