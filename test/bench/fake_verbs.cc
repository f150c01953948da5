// SPDX-License-Identifier: BSD-3-Clause
//
// libibverbs with the devices fake0, fake1 and so on, as many as FAKE_NICS
// says, or one. All of their ports are connected. They register any memory at
// once, and execute the work of their queue pairs. A program with these
// functions exports them, so that UCX's uct_ib calls them in place of the
// library's.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <initializer_list>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

// Defined in fake_queues.cc.
void set_queue_functions(ibv_context_ops *all);

std::atomic<size_t> fake_registrations{0}; // of dma-bufs

namespace {

constexpr int max = 1 << 16;

ibv_device devices[16];
std::atomic<uint32_t> last_key{1000};

int device_count()
{
    const char *count = getenv("FAKE_NICS");
    return (count == nullptr) ? 1 : std::clamp(atoi(count), 1, 16);
}

ibv_mr *make_region(ibv_pd *pd, uint64_t address, size_t length)
{
    auto *mr    = new ibv_mr{};
    mr->context = pd->context;
    mr->pd      = pd;
    mr->addr    = reinterpret_cast<void *>(address);
    mr->length  = length;
    mr->lkey    = ++last_key;
    mr->rkey    = ++last_key;
    return mr;
}

const char *file_of(const char *path)
{
    return std::string_view(path).starts_with("/dev/infiniband/fake")
               ? "/dev/null"
               : path;
}

} // namespace

extern "C" {

// UCX looks for a device file, which must be a character device.
int stat(const char *path, struct stat *out)
{
    return fstatat(AT_FDCWD, file_of(path), out, 0);
}

int __xstat(int, const char *path, struct stat *out) // NOLINT(*-naming)
{
    return stat(path, out);
}

int access(const char *path, int mode)
{
    return faccessat(AT_FDCWD, file_of(path), mode, 0);
}

ibv_device **ibv_get_device_list(int *count)
{
    *count      = device_count();
    auto **list = new ibv_device *[size_t(*count) + 1] {};
    for (int i = 0; i < *count; ++i) {
        ibv_device &one = devices[i];
        snprintf(one.name, sizeof(one.name), "fake%d", i);
        strcpy(one.dev_name, one.name);
        one.node_type      = IBV_NODE_CA;
        one.transport_type = IBV_TRANSPORT_IB;
        list[i]            = &one;
    }
    return list;
}

// Without a provider's extensions, libibverbs' inline functions call the
// functions below.
ibv_context *ibv_open_device(ibv_device *opened)
{
    auto *context             = new ibv_context{};
    context->device           = opened;
    context->async_fd         = eventfd(0, EFD_CLOEXEC);
    context->num_comp_vectors = 1;
    set_queue_functions(&context->ops);
    return context;
}

int ibv_query_device(ibv_context *, ibv_device_attr *attr)
{
    *attr               = {};
    attr->max_mr_size   = SIZE_MAX;
    attr->phys_port_cnt = 1;
    for (int *each : {&attr->max_qp, &attr->max_qp_wr, &attr->max_cq,
                      &attr->max_cqe, &attr->max_mr, &attr->max_pd,
                      &attr->max_srq, &attr->max_srq_wr, &attr->max_ah}) {
        *each = max;
    }
    attr->max_sge = attr->max_srq_sge = 16;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
    attr->max_pkeys                                  = 1;
    return 0;
}

int ibv_query_port(ibv_context *, uint8_t, _compat_ibv_port_attr *compat)
{
    auto *attr         = reinterpret_cast<ibv_port_attr *>(compat);
    attr->state        = IBV_PORT_ACTIVE;
    attr->max_mtu      = IBV_MTU_4096;
    attr->active_mtu   = IBV_MTU_4096;
    attr->gid_tbl_len  = 1;
    attr->pkey_tbl_len = 1;
    attr->max_msg_sz   = 1U << 30;
    attr->lid          = 1;
    attr->active_width = 2;  // 4 lanes
    attr->active_speed = 32; // of EDR
    attr->phys_state   = 5;
    attr->link_layer   = IBV_LINK_LAYER_INFINIBAND;
    return 0;
}

int ibv_query_gid(ibv_context *, uint8_t, int, ibv_gid *gid)
{
    gid->global.subnet_prefix = htobe64(0xfe80ULL << 48);
    gid->global.interface_id  = htobe64(1);
    return 0;
}

// UCX and the plug-in probe with an invalid descriptor. A registration takes as
// many instructions as FAKE_REGISTRATION says.
ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, uint64_t, size_t length, uint64_t iova,
                          int fd, int)
{
    if (fd < 0) {
        errno = EBADF;
        return nullptr;
    }
    static const char *cost = getenv("FAKE_REGISTRATION");
    for (long i = (cost == nullptr) ? 0 : atol(cost); i > 2; i -= 3) {
        asm volatile("");
    }
    ++fake_registrations;
    return make_region(pd, iova, length);
}

int ibv_close_device(ibv_context *context)
{
    close(context->async_fd);
    delete context;
    return 0;
}

// Calls with little to do. A device with an index makes UCX ask the kernel.
// clang-format off
void ibv_free_device_list(ibv_device **list) { delete[] list; }
const char *ibv_get_device_name(ibv_device *of) { return of->name; }
int ibv_get_device_index(ibv_device *) { return -1; }
const char *ibv_node_type_str(ibv_node_type) { return "fake"; }
bool mlx5dv_is_supported(ibv_device *) { return false; }
int efadv_query_device(ibv_context *, void *, uint32_t) { return EOPNOTSUPP; }
int ibv_query_pkey(ibv_context *, uint8_t, int, uint16_t *pkey) { *pkey = 0xffff; return 0; }
ibv_pd *ibv_alloc_pd(ibv_context *of) { return new ibv_pd{of, 0}; }
int ibv_dealloc_pd(ibv_pd *domain) { delete domain; return 0; }
ibv_mr *ibv_reg_mr(ibv_pd *pd, void *at, size_t length, int)
{ return make_region(pd, reinterpret_cast<uint64_t>(at), length); }
ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *, size_t length, uint64_t iova, unsigned)
{ return make_region(pd, iova, length); }
int ibv_dereg_mr(ibv_mr *mr) { delete mr; return 0; }
int ibv_fork_init() { return 0; }
int ibv_destroy_comp_channel(ibv_comp_channel *) { return 0; }
// clang-format on

} // extern "C"
