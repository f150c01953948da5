// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <uct/ib_dmabuf/ucx/library.h>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace ucx_ib_dmabuf::info {

// The system's libibverbs, opened once.
struct libibverbs {
    std::string problem; // if there is one, nothing may be called
    library loaded;
    verbs_functions plug_in;
    // Since rdma-core 34; may be nullptr.
    ibv_mr *(*reg_dmabuf)(ibv_pd *pd, uint64_t offset, size_t length,
                          uint64_t iova, int fd, int access);

    static const libibverbs &get();
};

class open_device final : public importer {
public:
    explicit open_device(ibv_device *device);

    const std::string &name() const { return name_; }
    ibv_context *context() const { return context_.get(); }
    ibv_pd *pd() const { return pd_.get(); }
    int error() const { return error_; } // if there is no PD
    // Only if there is a PD.
    protection_domain domain() const
    {
        return {pd(), &libibverbs::get().plug_in, look_up_mlx5(*context_)};
    }

    // Registers for all access, as uct_ib 1.20 and later do: over Data Direct
    // if that succeeds. The handle is an ibv_mr.
    void *reg(int fd, size_t offset, uintptr_t address, size_t length) override;
    void dereg(void *mr) override
    {
        libibverbs::get().plug_in.dereg(static_cast<ibv_mr *>(mr));
    }
    registered_buffer buffer_of(void *mr, uintptr_t address) override
    {
        const auto *made = static_cast<const ibv_mr *>(mr);
        return {address, made->lkey, made->rkey};
    }

private:
    const std::string name_;
    const std::unique_ptr<ibv_context, int (*)(ibv_context *)> context_;
    const std::unique_ptr<ibv_pd, int (*)(ibv_pd *)> pd_;
    const int error_;
};

} // namespace ucx_ib_dmabuf::info
