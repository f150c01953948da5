// SPDX-License-Identifier: BSD-3-Clause
#include "verbs.h"
#include "library.h"

namespace ucx_ib_dmabuf {
namespace {

// Whether a library replaces libibverbs for the whole process, so that the
// dynamic linker has bound uct_ib to it. A global libibverbs does not count: it
// may be another UCX's.
bool is_interposed(const void *seen)
{
    const library around = library::around(seen);
    const void *list     = around.symbol("ibv_get_device_list");

    return around.is_program() || (list == nullptr) || !around.has(list);
}

template <class Function>
const char *find_bound(const library &uct_ib, const char *name, Function *out)
{
    *out = reinterpret_cast<Function>(bound_verb(uct_ib, name));
    return (*out == nullptr) ? name : nullptr;
}

void find_connection(const library &uct_ib, connection_functions *out)
{
    find_bound(uct_ib, "ibv_query_device", &out->query_device);
    find_bound(uct_ib, "ibv_query_port", &out->query_port);
    find_bound(uct_ib, "_ibv_query_gid_ex", &out->query_gid);
    find_bound(uct_ib, "ibv_query_pkey", &out->query_pkey);
    find_bound(uct_ib, "ibv_create_cq", &out->create_cq);
    find_bound(uct_ib, "ibv_destroy_cq", &out->destroy_cq);
    find_bound(uct_ib, "ibv_create_qp", &out->create_qp);
    find_bound(uct_ib, "ibv_modify_qp", &out->modify_qp);
    find_bound(uct_ib, "ibv_destroy_qp", &out->destroy_qp);
}

} // namespace

void *bound_verb(const library &uct_ib, const char *name)
{
    void *seen = library::everything().symbol(name);

    return ((seen != nullptr) && is_interposed(seen)) ? seen
                                                      : uct_ib.symbol(name);
}

bool connection_functions::complete() const
{
    return (query_device != nullptr) && (query_port != nullptr) &&
           (query_gid != nullptr) && (query_pkey != nullptr) &&
           (create_cq != nullptr) && (destroy_cq != nullptr) &&
           (create_qp != nullptr) && (modify_qp != nullptr) &&
           (destroy_qp != nullptr);
}

const char *look_up_verbs(const library &uct_ib, verbs_functions *out)
{
    find_connection(uct_ib, &out->connection);
    const char *missing = find_bound(uct_ib, "ibv_reg_mr_iova", &out->reg_iova);
    return (missing != nullptr)
               ? missing
               : find_bound(uct_ib, "ibv_dereg_mr", &out->dereg);
}

mlx5_functions look_up_mlx5(const ibv_context &context)
{
    const library driver =
        library::around(reinterpret_cast<const void *>(context.ops.poll_cq));
    mlx5_functions found{};

    driver.find("mlx5dv_is_supported", &found.is_supported);
    driver.find("mlx5dv_get_data_direct_sysfs_path",
                &found.get_data_direct_sysfs_path);
    return found;
}

} // namespace ucx_ib_dmabuf
