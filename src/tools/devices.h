// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TOOLS_DEVICES_H_
#define UCX_IB_DMABUF_TOOLS_DEVICES_H_

#include <span>
#include <string>
#include <uct/ib_dmabuf/host/verbs.h>

namespace ucx_ib_dmabuf::info {

// The system's libibverbs, opened once. What is beside the plug-in's functions
// opens devices. If there is a problem none is to be called.
struct libibverbs {
    std::string path    = "no libibverbs.so.1";
    std::string problem = {};
    verbs_functions plug_in{};
    // Since rdma-core 34; may be null.
    ibv_mr *(*reg_dmabuf)(ibv_pd *pd, uint64_t offset, size_t length,
                          uint64_t iova, int fd, int access) = nullptr;
    ibv_device **(*get_list)(int *count)                     = nullptr;
    void (*free_list)(ibv_device **list)                     = nullptr;
    ibv_context *(*open)(ibv_device *device)                 = nullptr;
    int (*close)(ibv_context *context)                       = nullptr;
    ibv_pd *(*alloc_pd)(ibv_context *context)                = nullptr;
    int (*dealloc_pd)(ibv_pd *pd)                            = nullptr;

    static const libibverbs &get();
};

class device_list {
public:
    explicit device_list(const libibverbs &verbs);
    ~device_list();
    device_list(const device_list &)            = delete;
    device_list &operator=(const device_list &) = delete;

    std::span<ibv_device *> devices() const { return all_; }

private:
    const libibverbs &verbs_;
    std::span<ibv_device *> all_{};
};

// With a protection domain. Null if that could not be had; errno says why.
class open_device {
public:
    open_device(const libibverbs &verbs, ibv_device *device);
    ~open_device();
    open_device(const open_device &)            = delete;
    open_device &operator=(const open_device &) = delete;

    ibv_context *context() const { return context_; }
    ibv_pd *pd() const { return pd_; }
    // Of one that is open.
    protection_domain domain() const
    {
        return {pd_, &verbs_.plug_in, look_up_mlx5(*context_)};
    }
    // As uct_ib from 1.20 on: over Data Direct, where that takes it. Null, and
    // an errno.
    ibv_mr *reg_dmabuf(int fd, uintptr_t iova, size_t length, int access) const;

private:
    const libibverbs &verbs_;
    ibv_context *const context_;
    ibv_pd *const pd_;
};

} // namespace ucx_ib_dmabuf::info

#endif
