// SPDX-License-Identifier: BSD-3-Clause
#include "functions.h"
#include <dlfcn.h>

#undef ibv_reg_mr_iova

namespace ucx_ib_dmabuf {
namespace {

template <class Function>
void find(void *library, const char *name, Function *out)
{
    *out = reinterpret_cast<Function>(dlsym(library, name));
}

} // namespace

verbs_functions find_verbs_functions()
{
    verbs_functions found{};

    found.reg_dmabuf = ibv_reg_dmabuf_mr;
    found.reg_iova   = ibv_reg_mr_iova;
    found.dereg      = ibv_dereg_mr;
    // The provider's file is a link to this library.
    void *mlx5 = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (mlx5 != nullptr) {
        find(mlx5, "mlx5dv_is_supported", &found.mlx5_is_supported);
        find(mlx5, "mlx5dv_get_data_direct_sysfs_path",
             &found.mlx5_get_data_direct_sysfs_path);
        find(mlx5, "mlx5dv_reg_dmabuf_mr", &found.mlx5_reg_dmabuf);
        dlclose(mlx5); // its devices are open
    }
    return found;
}

} // namespace ucx_ib_dmabuf
