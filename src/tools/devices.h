// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <span>
#include <string>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace ucx_ib_dmabuf::info {

// The system's libibverbs, opened once. The functions besides `plug_in` open
// devices. If there is a problem, none may be called.
struct libibverbs {
    std::string path    = "no libibverbs.so.1";
    std::string problem = {};
    verbs_functions plug_in{};
    // Since rdma-core 34; may be nullptr.
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
    explicit device_list(const libibverbs &verbs)
        : first_(verbs.get_list(&count_), verbs.free_list)
    {
    }
    std::span<ibv_device *> devices() const
    {
        return {first_.get(), first_ ? static_cast<size_t>(count_) : 0};
    }

private:
    int count_ = 0;
    std::unique_ptr<ibv_device *, void (*)(ibv_device **)> first_;
};

// Opens a device and allocates a PD; if pd() is nullptr, errno has the cause.
class open_device {
public:
    open_device(const libibverbs &verbs, ibv_device *device)
        : verbs_(verbs), context_(verbs.open(device), verbs.close),
          pd_(context_ ? verbs.alloc_pd(context()) : nullptr, verbs.dealloc_pd)
    {
    }

    ibv_context *context() const { return context_.get(); }
    ibv_pd *pd() const { return pd_.get(); }
    // Only for an open device.
    protection_domain domain() const
    {
        return {pd(), &verbs_.plug_in, look_up_mlx5(*context_)};
    }
    // Registers as uct_ib 1.20 and later do: over Data Direct if that succeeds.
    // Returns nullptr and sets errno on failure.
    ibv_mr *reg_dmabuf(int fd, uintptr_t iova, size_t length, int access) const;

private:
    const libibverbs &verbs_;
    const std::unique_ptr<ibv_context, int (*)(ibv_context *)> context_;
    const std::unique_ptr<ibv_pd, int (*)(ibv_pd *)> pd_;
};

} // namespace ucx_ib_dmabuf::info
