// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "md_registrar.h"
#include "process_state.h"
#include <atomic>
#include <uct/ib_dmabuf/ucx/md_override.h>

namespace ucx_ib_dmabuf {

// The memory handle for UCX. uct_ib's transports read the keys at its start;
// our data follows. Only operations that never get our handles read uct_ib's
// data in that place. Each mem_reg gets its own, as UCX may invalidate each one
// separately.
class memh : public handle_keys {
public:
    using handle_keys::handle_keys;

    uct_mem_h to_uct() { return static_cast<handle_keys *>(this); }

    // The requested range, and the cache's region around it.
    uintptr_t address  = 0;
    size_t length      = 0;
    const region *used = nullptr;

    // A registration of this range alone. Set once a remote key was packed that
    // may be invalidated while others use the region.
    std::atomic<registration *> own{nullptr};
};

// A memory domain of uct_ib that registers GPU memory, too.
class memory_domain final : public md_ops {
public:
    memory_domain(const saved_md_ops &original, process_state &shared,
                  bool peer_memory);
    ~memory_domain() override { cache_.detach(id_); }
    memory_domain(const memory_domain &)            = delete;
    memory_domain &operator=(const memory_domain &) = delete;

    void query(md_attributes *attributes) noexcept override;
    ucs_status_t reg(const reg_request &request,
                     uct_mem_h *handle) noexcept override;
    void dereg(handle_keys *handle) noexcept override;
    ucs_status_t pack(const pack_request &request,
                      void *buffer) noexcept override;
    void failed(ucs_status_t status) noexcept override;
    // False if the cache has no slot left for a NIC: it registers nothing.
    bool is_attached() const { return id_ < max_nics; }

private:
    ucs_status_t reg_new(const reg_request &request, uct_mem_h *handle);
    ucs_status_t hand_out(const region *used, uintptr_t address, size_t length,
                          uct_mem_h *handle);
    ucs_status_t reg_device(const reg_request &request, uct_mem_h *handle);
    ucs_status_t reg_host(const reg_request &request, uct_mem_h *handle);
    ucs_status_t reg_failed(reg_request request, ucs_status_t failure,
                            uct_mem_h *handle);
    ucs_status_t reg_otherwise(const reg_request &request, int gpu,
                               ucs_status_t failure, uct_mem_h *handle);
    bool ensure_own_registration(memh *handle);
    registration *reg_alone(const memh &handle);
    bool has_hole(uintptr_t end, const segment_run &found) const;
    bool may_use_peer_memory() const
    {
        return peer_memory_ && !device_.has_broken();
    }

    const saved_md_ops &original_;
    process_state &shared_;
    rcache &cache_; // shared_'s
    md_registrar device_;
    const bool peer_memory_; // uct_ib itself can register GPU memory
    const bool offers_gpu_;  // query() offers to register GPU memory
    // Must be last: nothing would detach it if a later member threw.
    const rcache::nic_id id_;
};

// Returns a domain that registers GPU memory, or nullptr if the device or the
// GPU does not allow it, which is reported.
std::unique_ptr<md_ops> override_md(const saved_md_ops &original);

} // namespace ucx_ib_dmabuf
