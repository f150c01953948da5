// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include "copier.h"
#include "transport_types.h"
#include <atomic>

namespace ucx_ib_dmabuf {

class library;

// A component of UCX's, "cuda_cpy" with the transport "cuda_copy", for a copy
// of UCX that is built without. Its interfaces are UCX's own of "self", so that
// what differs between UCX's generations in these is UCX's; only what we offer
// takes the place of what self does. UCX keeps pointers to it: it is never
// moved or destroyed.
class copy_component {
public:
    // Of the copy of UCX that has this libuct_ib. Null, and why, if that has
    // CUDA by itself or is not as we know it.
    static copy_component *make(const library &uct_ib, memory_copier &user,
                                const char **why);
    // Null, or what a copy of UCX without CUDA lacks.
    static const char *missing(const library &uct_ib)
    {
        return copy_component().look_up(uct_ib);
    }
    // From now on that UCX lists it.
    void show();

    copy_component(const copy_component &)            = delete;
    copy_component &operator=(const copy_component &) = delete;

private:
    struct domain {
        uct_md_t uct;
        copy_component *of;
    };

    copy_component()  = default;
    ~copy_component() = default;
    const char *look_up(const library &uct_ib);
    const char *look_up_attributes(const library &uct_ib);
    void fill_component();
    void fill_tl(const uct_tl_t &self);
    void fill_domain();
    ucs_status_t ask(const void *address, size_t length,
                     memory_copier::found *out, uint8_t *sys_dev);
    uint8_t sys_device_of(int gpu);

    static copy_component &of(uct_component_t *component)
    {
        return *reinterpret_cast<copy_component *>(component);
    }
    static copy_component &of(uct_md_h md)
    {
        return *reinterpret_cast<domain *>(md)->of;
    }
    static copy_component &of(uct_ep_h ep) { return of(ep->iface->md); }
    static ucs_status_t query_md_resources(uct_component_t *component,
                                           void **resources,
                                           unsigned *count) noexcept;
    static ucs_status_t md_open(uct_component_t *component, const char *name,
                                const void *config, uct_md_h *md) noexcept;
    static ucs_status_t md_query(uct_md_h md, void *attributes) noexcept;
    static ucs_status_t mem_query(uct_md_h md, const void *address,
                                  size_t length,
                                  uct_md_mem_attr_t *attr) noexcept;
    static ucs_status_t detect(uct_md_h md, const void *address, size_t length,
                               ucs_memory_type_t *type) noexcept;
    static ucs_status_t query_devices(uct_md_h md, void **devices,
                                      unsigned *count) noexcept;
    static ucs_status_t iface_open(uct_md_h md, void *worker,
                                   const void *params, const void *config,
                                   uct_iface_h *iface) noexcept;
    static ucs_status_t iface_query(uct_iface_h iface,
                                    uct_iface_attr_t *attr) noexcept;
    static ucs_status_t estimate_perf(uct_iface_h iface,
                                      uct_perf_attr_t *attr) noexcept;
    static ucs_status_t put_short(uct_ep_h ep, const void *buffer,
                                  unsigned length, uint64_t remote,
                                  uct_rkey_t rkey) noexcept;
    static ucs_status_t get_short(uct_ep_h ep, void *buffer, unsigned length,
                                  uint64_t remote, uct_rkey_t rkey) noexcept;
    static ucs_status_t put_zcopy(uct_ep_h ep, const uct_iov_t *iov,
                                  size_t count, uint64_t remote,
                                  uct_rkey_t rkey, uct_completion_t *) noexcept;
    static ucs_status_t get_zcopy(uct_ep_h ep, const uct_iov_t *iov,
                                  size_t count, uint64_t remote,
                                  uct_rkey_t rkey, uct_completion_t *) noexcept;

    // The first one: of(uct_component_t *).
    whole_component component_{};
    uct_tl_t tl_{};
    domain md_{};
    void *md_ops_[max_ops]{};
    memory_copier *user_ = nullptr;
    std::atomic<bool> begun_{false};
    // Of GPUs by their ordinals, one more than it is; 0: not asked yet.
    static constexpr int max_gpus = 64;
    std::atomic<uint16_t> sys_devices_[max_gpus]{};

    // UCX's own.
    void (*component_register_)(void *component)    = nullptr;
    void (*tl_register_)(void *component, void *tl) = nullptr;
    void (*base_md_query_)(void *attributes)        = nullptr; // from 1.17
    query_md_resources_function *single_resource_   = nullptr;
    ucs_status_t (*single_device_)(uct_md_h md, const char *name,
                                   uct_device_type_t type, uint8_t sys_device,
                                   void **devices, unsigned *count) = nullptr;
    ucs_status_t (*memtype_cache_lookup_)(const void *address, size_t length,
                                          void *info)               = nullptr;
    // The flags from 1.22 on; before, nobody looks at them.
    void (*memtype_cache_update_)(const void *address, size_t length,
                                  ucs_memory_type_t type, uint8_t sys_device,
                                  uint8_t flags) = nullptr;
    // Of UCX itself, "UCX_" left out.
    ucs_status_t (*set_global_option_)(const char *name,
                                       const char *value) = nullptr;
    // Null if this UCX knows of no places.
    ucs_status_t (*find_sys_device_)(const memory_copier::pci_address *,
                                     uint8_t *sys_device)      = nullptr;
    void *stub_rkey_unpack_                                    = nullptr;
    void *rkey_compare_                                        = nullptr;
    const uct_tl_t *self_tl_                                   = nullptr;
    iface_open_function *self_open_                            = nullptr;
    ucs_status_t (*base_estimate_perf_)(uct_iface_h iface,
                                        uct_perf_attr_t *attr) = nullptr;
    // Of self's interfaces, which are all alike.
    void *self_query_ = nullptr;
    void *internal_ops_[16]{};  // with our estimate_perf
    size_t types_from_     = 0; // where detect_mem_types is in the attributes
    uint64_t access_types_ = 0;
};

} // namespace ucx_ib_dmabuf
