// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_sim.h"
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace verbs_sim {
namespace {

constexpr int enotsupp      = 524; // the kernel's ENOTSUPP
constexpr int uct_ib_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_ATOMIC;
constexpr int allowed = uct_ib_access | IBV_ACCESS_RELAXED_ORDERING;

std::atomic<unsigned> hung;
std::atomic<uint32_t> last_key{1000};

// dma-bufs that NVIDIA's driver left locked.
std::mutex locked_mutex;
std::set<std::pair<uint64_t, uint64_t>> locked;

bool is_locked(const registration &what)
{
    std::lock_guard<std::mutex> guard(locked_mutex);
    return locked.count(what.dmabuf) != 0;
}

void leave_locked(const registration &what)
{
    std::lock_guard<std::mutex> guard(locked_mutex);
    locked.insert(what.dmabuf);
}

bool is_dmabuf(int fd)
{
    char link[32];
    char target[64] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof(target) - 1) < 0) {
        return false;
    }
    const std::string_view text(target);
    return text.starts_with("/dmabuf:") || text.starts_with("/memfd:");
}

size_t page_offset(uint64_t address)
{
    return address % static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

platform connectx7()
{
    return {};
}

platform gb300(unsigned nvidia)
{
    platform on;
    on.data_direct  = true;
    on.coherent_gpu = true;
    on.nvidia       = nvidia;
    return on;
}

platform gb300_far(unsigned nvidia)
{
    platform on               = gb300(nvidia);
    on.data_direct_beside_gpu = false;
    return on;
}

nic::nic(const char *name, const platform &on) : on_(on)
{
    snprintf(device_.name, sizeof(device_.name), "%s", name);
    device_.owner   = this;
    context_.owner  = this;
    context_.device = &device_;
    pd_.owner       = this;
    pd_.context     = &context_;

    functions_.dereg   = dereg_mr;
    mlx5_.is_supported = is_mlx5;
    if (on.rdma_core >= 54) {
        mlx5_.get_data_direct_sysfs_path = get_data_direct_path;
    }
}

void nic::become(const platform &on)
{
    std::lock_guard<std::mutex> guard(mutex_);
    on_ = on;
}

size_t nic::live() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return all_.size();
}

registration nic::of(const ibv_mr *mr) const
{
    return static_cast<const sim_mr *>(mr)->what;
}

unsigned nic::hangs()
{
    return hung;
}

bool nic::is_mlx5(ibv_device *device)
{
    return owner(device).on_.mlx5;
}

// libmlx5 recognizes its own devices; the kernel has the method since 6.12.
int nic::get_data_direct_path(ibv_context *context, char *path, size_t size)
{
    constexpr std::string_view where = "/devices/pci0000:00/0000:00:01.0";
    const platform &on               = owner(context).on_;

    if (!on.mlx5) {
        return EOPNOTSUPP;
    }
    if (on.kernel < 612) {
        return EPROTONOSUPPORT;
    }
    if (!on.data_direct) {
        return ENODEV;
    }
    if (size <= where.size()) {
        return ENOSPC;
    }
    where.copy(path, where.size());
    path[where.size()] = '\0';
    return 0;
}

ibv_mr *nic::uct_ib_reg(int fd, uint64_t iova, size_t length,
                        bool tries_data_direct)
{
    char path[64];

    if (tries_data_direct && (mlx5_.get_data_direct_sysfs_path != nullptr) &&
        (get_data_direct_path(&context_, path, sizeof(path)) == 0)) {
        ibv_mr *mr = reg_dmabuf_mr(0, length, iova, fd, uct_ib_access, true);
        if (mr != nullptr) {
            return mr;
        }
    }
    return reg_dmabuf_mr(0, length, iova, fd, uct_ib_access);
}

ibv_mr *nic::reg_dmabuf_mr(uint64_t offset, size_t length, uint64_t iova,
                           int fd, int access, bool data_direct)
{
    std::lock_guard<std::mutex> guard(mutex_);
    registration what{data_direct, false, true, length, iova, {}};

    int error = check_arguments(offset, iova, access, data_direct);
    if (error == 0) {
        error = ((length == 0) || (offset + length < offset))
                    ? EINVAL
                    : import(fd, offset + length, &what);
    }
    if (error == 0) {
        error = map(&what);
    }
    const bool by_link = on_.coherent_gpu && !what.pcie;
    if ((error == 0) && !by_link &&
        ((length > on_.room) || (bytes() > on_.room - length))) {
        error = ENOMEM;
    }
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    auto *mr    = new sim_mr{{}, what};
    mr->context = &context_;
    mr->pd      = &pd_;
    mr->addr    = reinterpret_cast<void *>(offset); // as libibverbs sets it
    mr->length  = length;
    mr->lkey    = ++last_key;
    mr->rkey    = ++last_key;
    all_.insert(mr);
    return mr;
}

// UVERBS_METHOD_REG_DMABUF_MR, ib_check_mr_access(),
// mlx5_ib_reg_user_mr_dmabuf().
int nic::check_arguments(uint64_t offset, uint64_t iova, int access,
                         bool data_direct) const
{
    const int remote_writes =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

    if ((on_.kernel < 512) || (data_direct && (on_.kernel < 612))) {
        return EPROTONOSUPPORT;
    }
    if (!on_.imports) {
        return EOPNOTSUPP;
    }
    if (((access & ~allowed) != 0) ||
        (page_offset(offset) != page_offset(iova)) ||
        (((access & remote_writes) != 0) &&
         ((access & IBV_ACCESS_LOCAL_WRITE) == 0))) {
        return EINVAL;
    }
    if (data_direct && (page_offset(iova) != 0)) {
        return EOPNOTSUPP;
    }
    return (data_direct && (!on_.data_direct || on_.data_direct_gone)) ? EINVAL
                                                                       : 0;
}

// ib_umem_dmabuf_get()
int nic::import(int fd, uint64_t end, registration *what) const
{
    struct stat file = {};
    const int flags  = fcntl(fd, F_GETFL);

    if ((flags < 0) || (fstat(fd, &file) != 0)) {
        return EBADF;
    }
    if (!is_dmabuf(fd) || (static_cast<uint64_t>(file.st_size) < end)) {
        return EINVAL;
    }
    what->pcie   = (flags & O_NONBLOCK) != 0;
    what->dmabuf = {file.st_dev, file.st_ino};
    return 0;
}

// nv_dma_buf_attach(), nv_dma_buf_map()
int nic::map(registration *what) const
{
    const bool beside =
        what->data_direct ? on_.data_direct_beside_gpu : on_.nic_beside_gpu;

    if (is_locked(*what)) {
        ++hung;
        return ENOMEM;
    }
    if (!what->pcie) {
        // Data Direct is behind the GPU's own switch, not on its coherent link.
        what->reachable = !(what->data_direct && on_.coherent_gpu);
        return on_.peer_to_peer ? 0 : enotsupp;
    }
    what->reachable = beside;
    if (beside || (!what->data_direct && !on_.refuses_unreachable)) {
        return 0;
    }
    if (on_.nvidia >= 580) {
        return enotsupp;
    }
    leave_locked(*what);
    return ENOMEM; // dma_buf_map_attachment()'s error for a null scatter list
}

size_t nic::bytes() const
{
    size_t sum = 0;

    for (const sim_mr *mr : all_) {
        sum += mr->what.length;
    }
    return sum;
}

int nic::dereg_mr(ibv_mr *mr)
{
    nic &self   = owner(mr->pd);
    auto *ended = static_cast<sim_mr *>(mr);
    std::lock_guard<std::mutex> guard(self.mutex_);

    if (self.all_.erase(ended) == 0) {
        return EINVAL;
    }
    hung += is_locked(ended->what);
    delete ended;
    return 0;
}

} // namespace verbs_sim
