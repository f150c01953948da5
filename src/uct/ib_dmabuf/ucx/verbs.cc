// SPDX-License-Identifier: BSD-3-Clause
#include "verbs.h"
#include "library.h"
#include <type_traits>

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

} // namespace

void *bound_verb(const library &uct_ib, const char *name)
{
    void *seen = library::everything().symbol(name);

    return ((seen != nullptr) && is_interposed(seen)) ? seen
                                                      : uct_ib.symbol(name);
}

const char *look_up_verbs(const library &uct_ib, verbs_functions *out)
{
    connection_functions &to = out->connection;
    const auto find          = [&](const char *name, auto *function) {
        *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
            bound_verb(uct_ib, name));
        return *function != nullptr;
    };

    // Stops at the first one that is missing: then there is no destroy_qp.
    static_cast<void>(find("ibv_query_device", &to.query_device) &&
                      find("ibv_query_port", &to.query_port) &&
                      find("_ibv_query_gid_ex", &to.query_gid) &&
                      find("ibv_query_pkey", &to.query_pkey) &&
                      find("ibv_create_cq", &to.create_cq) &&
                      find("ibv_destroy_cq", &to.destroy_cq) &&
                      find("ibv_create_qp", &to.create_qp) &&
                      find("ibv_modify_qp", &to.modify_qp) &&
                      find("ibv_wc_status_str", &to.wc_status_str) &&
                      find("ibv_destroy_qp", &to.destroy_qp));
    return !find("ibv_reg_mr_iova", &out->reg_iova) ? "ibv_reg_mr_iova"
           : !find("ibv_dereg_mr", &out->dereg)     ? "ibv_dereg_mr"
                                                    : nullptr;
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
