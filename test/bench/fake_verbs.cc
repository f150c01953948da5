// SPDX-License-Identifier: BSD-3-Clause
//
// libibverbs with one device, which registers whatever it is asked to, at once,
// and counts.
// The program that has these functions exports them, so that UCX's uct_ib uses
// them in the library's place.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace {

ibv_device device;
ibv_context context;
ibv_pd domain;
std::atomic<uint32_t> last_key{1000};
std::atomic<unsigned long> registered{0};

ibv_mr *make_region(ibv_pd *pd, uint64_t address, size_t length)
{
    auto *mr    = new ibv_mr{};
    mr->context = pd->context;
    mr->pd      = pd;
    mr->addr    = reinterpret_cast<void *>(address);
    mr->length  = length;
    mr->lkey    = ++last_key;
    mr->rkey    = ++last_key;
    ++registered;
    return mr;
}

} // namespace

unsigned long fake_verbs_registered()
{
    return registered;
}

extern "C" {

ibv_device **ibv_get_device_list(int *count)
{
    *count = 1;
    return new ibv_device *[2] { &device, nullptr };
}

void ibv_free_device_list(ibv_device **list)
{
    delete[] list;
}

const char *ibv_get_device_name(ibv_device *)
{
    return "fake0";
}

const char *ibv_node_type_str(ibv_node_type)
{
    return "fake";
}

bool mlx5dv_is_supported(ibv_device *)
{
    return false;
}

int ibv_fork_init()
{
    return 0;
}

// Not extended by a provider: libibverbs' inline functions then call those
// below.
ibv_context *ibv_open_device(ibv_device *opened)
{
    strcpy(opened->name, "fake0");
    opened->node_type = IBV_NODE_CA;
    strcpy(opened->name, "fake0");
    context.device   = opened;
    context.async_fd = eventfd(0, EFD_CLOEXEC);
    return &context;
}

int ibv_close_device(ibv_context *)
{
    return 0;
}

// No ports.
int ibv_query_device(ibv_context *, ibv_device_attr *attr)
{
    *attr = {};
    return 0;
}

ibv_pd *ibv_alloc_pd(ibv_context *of)
{
    domain.context = of;
    return &domain;
}

int ibv_dealloc_pd(ibv_pd *)
{
    return 0;
}

ibv_mr *ibv_reg_mr(ibv_pd *pd, void *address, size_t length, int)
{
    return make_region(pd, reinterpret_cast<uint64_t>(address), length);
}

ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *, size_t length, uint64_t iova, int)
{
    return make_region(pd, iova, length);
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *, size_t length, uint64_t iova,
                         unsigned)
{
    return make_region(pd, iova, length);
}

// The plug-in probes with a descriptor that is none.
ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, uint64_t, size_t length, uint64_t iova,
                          int fd, int)
{
    if (fd < 0) {
        errno = EBADF;
        return nullptr;
    }
    return make_region(pd, iova, length);
}

int ibv_dereg_mr(ibv_mr *mr)
{
    delete mr;
    return 0;
}

} // extern "C"
