// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <uct/ib_dmabuf/rcache/rcache.h>
#include <uct/ib_dmabuf/ucx/md_override.h>

namespace ucx_ib_dmabuf {

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
    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
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

} // namespace ucx_ib_dmabuf
