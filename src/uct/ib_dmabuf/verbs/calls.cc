// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include <dlfcn.h>

#undef ibv_reg_mr_iova

namespace ucx_ib_dmabuf {
namespace {

template <typename T>
void find(void *library, const char *name, T **entry)
{
    *entry = reinterpret_cast<T *>(dlsym(library, name));
}

} // namespace

verbs_calls find_verbs_calls()
{
    verbs_calls found{};

    found.get_device_name = ibv_get_device_name;
    found.reg_mr_iova     = ibv_reg_mr_iova;
    found.dereg_mr        = ibv_dereg_mr;
    found.reg_dmabuf_mr   = ibv_reg_dmabuf_mr;
    // The provider's file is a link to this library.
    void *mlx5 = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (mlx5 != nullptr) {
        find(mlx5, "mlx5dv_is_supported", &found.mlx5_is_supported);
        find(mlx5, "mlx5dv_get_data_direct_sysfs_path",
             &found.mlx5_get_data_direct_sysfs_path);
        find(mlx5, "mlx5dv_reg_dmabuf_mr", &found.mlx5_reg_dmabuf_mr);
        dlclose(mlx5); // its devices are open
    }
    return found;
}

} // namespace ucx_ib_dmabuf
