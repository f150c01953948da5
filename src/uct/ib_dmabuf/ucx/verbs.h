// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace ucx_ib_dmabuf {

class library;

// The verbs that set up a connection. None may be called unless complete().
struct connection_functions {
    int (*query_device)(ibv_context *context, ibv_device_attr *attr);
    // The exported function fills only the first part of the structure.
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
    const char *(*wc_status_str)(ibv_wc_status status);
    int (*destroy_qp)(ibv_qp *qp); // is looked up last, if there are the others

    bool complete() const { return destroy_qp != nullptr; }
};

// The verbs of the libibverbs that one uct_ib uses: another libibverbs does not
// know its devices. (libibverbs has macros of these names.)
struct verbs_functions {
    ibv_mr *(*reg_iova)(ibv_pd *pd, void *address, size_t length, uint64_t iova,
                        int access);
    int (*dereg)(ibv_mr *mr);
    connection_functions connection{};
};

// Functions of the libmlx5 that drives a device; null if missing.
struct mlx5_functions {
    bool (*is_supported)(ibv_device *device);
    int (*get_data_direct_sysfs_path)(ibv_context *context, char *path,
                                      size_t size); // from rdma-core 54
};

struct protection_domain {
    ibv_pd *verbs_pd;
    const verbs_functions *verbs; // outlives all users of the domain
    mlx5_functions mlx5{};

    const char *device_name() const { return verbs_pd->context->device->name; }
};

// Returns the function that calls of the library are bound to: in a preloaded
// library or in the libibverbs that it uses. Returns nullptr if there is none.
void *bound_verb(const library &uct_ib, const char *name);
// Returns nullptr, or the name of a missing function.
const char *look_up_verbs(const library &uct_ib, verbs_functions *out);
// Finds libmlx5 by the functions of the open device.
mlx5_functions look_up_mlx5(const ibv_context &context);

} // namespace ucx_ib_dmabuf
