// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "extents.h"
#include "process_state.h"
#include <atomic>
#include <mutex>
#include <uct/ib_dmabuf/path/reg_methods.h>
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

    // Registrations of parts of the range alone, the latest first. Their remote
    // keys may be invalidated while other handles use the region.
    std::atomic<registration *> own{nullptr};
};

// Imports dma-bufs by uct_ib's own mem_reg, with all access flags, as others
// share the registration.
class uct_ib_importer final : public importer {
public:
    uct_ib_importer(const saved_md_ops &uct_ib, ucs_memory_type_t type)
        : uct_ib_(uct_ib), type_(type)
    {
    }
    void *reg(int fd, size_t offset, uintptr_t address, size_t length) override;
    void dereg(void *handle) override { uct_ib_.dereg(handle); }
    registered_buffer buffer_of(void *handle, uintptr_t address) override
    {
        const handle_keys &keys = *handle_keys::of(handle);
        return {address, keys.lkey(), keys.rkey()};
    }

private:
    const saved_md_ops &uct_ib_;
    const ucs_memory_type_t type_;
};

// A memory domain of uct_ib, as the cache's NIC.
class md_registrar final : public registrar {
public:
    // `checks`: paths are checked; otherwise every path is trusted.
    md_registrar(const saved_md_ops &uct_ib, gpu_vendor &gpu, path_table &paths,
                 bool checks);

    reg_methods &methods() { return methods_; }
    // Whether a path to any GPU's memory is broken.
    bool has_broken() const { return methods_.has_broken(); }

    const char *name() const noexcept override { return uct_ib_.name(); }
    ucs_status_t reg(dmabuf_exports &memory, int gpu, uintptr_t address,
                     size_t length, void **handle) override
    {
        registration *made = nullptr;
        const ucs_status_t status =
            methods_.reg({memory, gpu, address, length}, &made);
        *handle = (status == UCS_OK) ? made : *handle;
        return status;
    }
    void dereg(void *handle) override;
    void count_end(int gpu, ending why) noexcept override;
    void drop_from_ucp_cache(uintptr_t address, size_t length) override
    {
        uct_ib_.drop_from_ucp_cache(address, length);
    }

    // Held while a thread uses a registration that may be revoked: dereg()
    // waits. uct_ib creates some keys only when it packs them, without a lock.
    std::mutex &packing() { return packing_; }
    // The registration behind the region, which must not be revoked.
    static registration *behind(const region &used)
    {
        return static_cast<registration *>(used.handle);
    }

private:
    const saved_md_ops &uct_ib_;
    uct_ib_importer importer_;
    reg_methods methods_;
    std::mutex packing_;
};

// A memory domain of uct_ib that registers GPU memory, too.
class memory_domain final : public md_ops {
public:
    memory_domain(const saved_md_ops &original, process_state &shared,
                  bool peer_memory);
    ~memory_domain() override
    {
        forget_asked(id_);
        cache_.detach(id_);
    }
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
    ucs_status_t reg_gpu(const reg_request &request, uct_mem_h *handle);
    ucs_status_t reg_host(const reg_request &request, uct_mem_h *handle);
    ucs_status_t reg_failed(reg_request request, ucs_status_t failure,
                            uct_mem_h *handle);
    ucs_status_t reg_otherwise(const reg_request &request, int gpu,
                               ucs_status_t failure, uct_mem_h *handle);
    registration *own_registration(memh *handle, address_range bytes);
    registration *reg_alone(const region &around, address_range bytes);
    bool may_use_peer_memory() const
    {
        return peer_memory_ && !nic_.has_broken();
    }

    const saved_md_ops &original_;
    process_state &shared_;
    rcache &cache_; // shared_'s
    md_registrar nic_;
    const bool peer_memory_; // uct_ib itself can register GPU memory
    const bool offers_gpu_;  // query() offers to register GPU memory
    // Must be last: nothing would detach it if a later member threw.
    const rcache::nic_id id_;
};

// Returns a domain that registers GPU memory, or nullptr if the device or the
// GPU does not allow it, which is reported.
std::unique_ptr<md_ops> override_md(const saved_md_ops &original);

} // namespace ucx_ib_dmabuf
