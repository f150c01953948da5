// SPDX-License-Identifier: BSD-3-Clause
#include "verbs.h"
#include "library.h"

namespace ucx_ib_dmabuf {
namespace {

// Whether somebody stands before libibverbs for the whole process: the dynamic
// linker has bound uct_ib to him. Another libibverbs that all see is none: it
// may be another UCX's.
bool is_interposed(const void *seen)
{
    const library around = library::around(seen);
    const void *list     = around.symbol("ibv_get_device_list");

    return around.is_program() || (list == nullptr) || !around.has(list);
}

void *bound(const library &uct_ib, const char *name)
{
    void *seen = library::everything().symbol(name);

    return ((seen != nullptr) && is_interposed(seen)) ? seen
                                                      : uct_ib.symbol(name);
}

template <class Function>
void find(const library &in, const char *name, Function *out)
{
    *out = reinterpret_cast<Function>(in.symbol(name));
}

template <class Function>
const char *find_bound(const library &uct_ib, const char *name, Function *out)
{
    *out = reinterpret_cast<Function>(bound(uct_ib, name));
    return (*out == nullptr) ? name : nullptr;
}

} // namespace

const char *look_up_verbs(const library &uct_ib, verbs_functions *out)
{
    find_bound(uct_ib, "ibv_reg_dmabuf_mr", &out->reg_dmabuf);
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

    find(driver, "mlx5dv_is_supported", &found.is_supported);
    find(driver, "mlx5dv_get_data_direct_sysfs_path",
         &found.get_data_direct_sysfs_path);
    find(driver, "mlx5dv_reg_dmabuf_mr", &found.reg_dmabuf);
    return found;
}

} // namespace ucx_ib_dmabuf
