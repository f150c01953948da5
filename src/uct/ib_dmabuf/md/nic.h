// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <uct/ib_dmabuf/rcache/rcache.h>
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

// Registers dma-bufs by uct_ib's own mem_reg, with all access flags, as others
// share the registration.
class uct_ib_registrar final : public dmabuf_registrar {
public:
    uct_ib_registrar(const saved_md_ops &uct_ib, ucs_memory_type_t type)
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

// The cache's registrar for a memory domain of uct_ib.
class nic final : public registrar {
public:
    // `checks`: paths are checked; otherwise every path is trusted.
    nic(const saved_md_ops &uct_ib, gpu_vendor &gpu, path_table &paths,
        bool checks);

    reg_methods &methods() { return methods_; }
    // Whether a path to any GPU's memory is broken.
    bool has_broken() const { return methods_.paths().has_broken(); }

    const char *name() const noexcept override { return uct_ib_.name(); }
    ucs_status_t reg(dmabuf_exports &memory, int gpu, uintptr_t address,
                     size_t length, void **handle) override;
    void dereg(void *handle) override;
    void count_end(int gpu, ending why) noexcept override;
    void drop_from_ucp_cache(uintptr_t address, size_t length) override
    {
        uct_ib_.drop_from_ucp_cache(address, length);
    }

    // Registers only the pages of the handle's range, for that handle alone,
    // until dereg(). Evicts idle regions. Returns nullptr on failure (logged).
    registration *reg_alone(const memh &handle, rcache &all);

    // Held while a thread uses a registration that may be revoked: dereg()
    // waits. uct_ib creates some keys only when it packs them, without a lock.
    std::mutex &packing() { return packing_; }
    // The registration behind the region, which must not be revoked.
    static registration *behind(const region &used)
    {
        return static_cast<registration *>(used.handle);
    }

private:
    reg_methods::path_check make_path_check();

    const saved_md_ops &uct_ib_;
    gpu_vendor &gpu_;
    uct_ib_registrar registrar_;
    reg_methods methods_;
    std::mutex packing_;
};

} // namespace ucx_ib_dmabuf
