// SPDX-License-Identifier: BSD-3-Clause
#include "devices.h"
#include <cerrno>
#include <dlfcn.h>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf::info {
namespace {

template <class Function>
bool find(const library &in, const char *name, Function *out)
{
    *out = reinterpret_cast<Function>(in.symbol(name));
    return *out != nullptr;
}

libibverbs load()
{
    constexpr char name[] = "libibverbs.so.1";
    libibverbs made;

    if (dlopen(name, RTLD_NOW | RTLD_LOCAL) == nullptr) {
        made.problem = dlerror();
        return made;
    }
    const library loaded(name);
    made.path       = loaded.path();
    made.reg_dmabuf = reinterpret_cast<decltype(made.reg_dmabuf)>(
        bound_verb(loaded, "ibv_reg_dmabuf_mr"));
    if (!find(loaded, "ibv_get_device_list", &made.get_list) ||
        !find(loaded, "ibv_free_device_list", &made.free_list) ||
        !find(loaded, "ibv_open_device", &made.open) ||
        !find(loaded, "ibv_close_device", &made.close) ||
        !find(loaded, "ibv_alloc_pd", &made.alloc_pd) ||
        !find(loaded, "ibv_dealloc_pd", &made.dealloc_pd) ||
        (look_up_verbs(loaded, &made.plug_in) != nullptr)) {
        made.problem = "it lacks functions that rdma-core 28 has";
    }
    return made;
}

} // namespace

const libibverbs &libibverbs::get()
{
    static const libibverbs &only = *new libibverbs(load());
    return only;
}

ibv_mr *open_device::reg_dmabuf(int fd, uintptr_t iova, size_t length,
                                int access) const
{
    constexpr int data_direct = 1; // MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
    ibv_mr *(*over_data_direct)(ibv_pd *, uint64_t, size_t, uint64_t, int, int,
                                int) = nullptr;
    const library driver =
        library::around(reinterpret_cast<const void *>(context_->ops.poll_cq));

    if (has_data_direct(domain()) &&
        find(driver, "mlx5dv_reg_dmabuf_mr", &over_data_direct)) {
        if (ibv_mr *mr = over_data_direct(pd(), 0, length, iova, fd, access,
                                          data_direct)) {
            return mr;
        }
    }
    if (verbs_.reg_dmabuf == nullptr) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return verbs_.reg_dmabuf(pd(), 0, length, iova, fd, access);
}

} // namespace ucx_ib_dmabuf::info
