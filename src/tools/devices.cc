// SPDX-License-Identifier: BSD-3-Clause
#include "devices.h"
#include <cerrno>
#include <dlfcn.h>
#include <uct/ib_dmabuf/path/loopback.h>

// A function that every libibverbs has.
#define VERB(_name) libibverbs::get().loaded.symbol<decltype(_name)>(#_name)

namespace ucx_ib_dmabuf::info {
namespace {

libibverbs load()
{
    constexpr char name[] = "libibverbs.so.1";
    libibverbs made{};

    if (dlopen(name, RTLD_NOW | RTLD_LOCAL) == nullptr) {
        made.problem = dlerror();
        return made;
    }
    made.loaded     = library(name);
    made.reg_dmabuf = reinterpret_cast<decltype(made.reg_dmabuf)>(
        bound_verb(made.loaded, "ibv_reg_dmabuf_mr"));
    if (look_up_verbs(made.loaded, &made.plug_in) != nullptr) {
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

open_device::open_device(ibv_device *device)
    : name_(device->name),
      context_(VERB(ibv_open_device)(device), VERB(ibv_close_device)),
      pd_(context_ ? VERB(ibv_alloc_pd)(context()) : nullptr,
          VERB(ibv_dealloc_pd)),
      error_(errno)
{
}

void *open_device::reg(int fd, size_t offset, uintptr_t address, size_t length)
{
    constexpr int data_direct = 1; // MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
    const auto reg_dmabuf     = libibverbs::get().reg_dmabuf;
    const library driver =
        library::around(reinterpret_cast<const void *>(context_->ops.poll_cq));
    const auto reg_direct =
        driver.symbol<ibv_mr *(ibv_pd *, uint64_t, size_t, uint64_t, int, int,
                               int)>("mlx5dv_reg_dmabuf_mr");
    ibv_mr *mr = nullptr;

    errno = EOPNOTSUPP;
    if (has_data_direct(domain()) && (reg_direct != nullptr)) {
        mr = reg_direct(pd(), offset, length, address, fd, all_access,
                        data_direct);
    }
    if ((mr == nullptr) && (reg_dmabuf != nullptr)) {
        mr = reg_dmabuf(pd(), offset, length, address, fd, all_access);
    }
    return mr;
}

std::deque<open_device> open_devices()
{
    int count = 0;
    std::deque<open_device> opened;
    ibv_device **all = VERB(ibv_get_device_list)(&count);

    for (int i = 0; i < count; ++i) {
        errno = 0;
        opened.emplace_back(all[i]);
    }
    if (all != nullptr) {
        VERB(ibv_free_device_list)(all);
    }
    return opened;
}

} // namespace ucx_ib_dmabuf::info
