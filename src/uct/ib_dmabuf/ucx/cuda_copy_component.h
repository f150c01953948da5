// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include "cuda_copy_ops.h"
#include "transport_types.h"
#include <atomic>

namespace ucx_ib_dmabuf {

class library;

// A UCT component "cuda_cpy" with the transport "cuda_copy", for a UCX instance
// that is built without CUDA. Its interfaces are those of UCX's transport
// "self" with some operations replaced, so UCX itself handles differences
// between its versions. UCX stores pointers to it: it is never moved or
// destroyed.
class cuda_copy_component {
public:
    // For the UCX instance of this libuct_ib. Returns nullptr and sets `why` if
    // that has CUDA itself or is not as expected.
    static cuda_copy_component *make(const library &uct_ib, cuda_copy_ops &user,
                                     const char **why);
    // Returns nullptr, or what a UCX instance without CUDA lacks.
    static const char *missing(const library &uct_ib)
    {
        return cuda_copy_component().look_up(uct_ib);
    }
    // Registers the component and its transport with UCX.
    void show();

    cuda_copy_component(const cuda_copy_component &)            = delete;
    cuda_copy_component &operator=(const cuda_copy_component &) = delete;

private:
    struct domain {
        uct_md_t uct;
        cuda_copy_component *of;
    };

    cuda_copy_component()  = default;
    ~cuda_copy_component() = default;
    const char *look_up(const library &uct_ib);
    const char *look_up_attributes(const library &uct_ib);
    void fill_component();
    void fill_tl(const uct_tl_t &self);
    void fill_domain();
    ucs_status_t ask(const void *address, size_t length,
                     cuda_copy_ops::found *out, uint8_t *sys_dev);
    uint8_t sys_device_of(int gpu);

    static cuda_copy_component &of(uct_component_t *component)
    {
        return *reinterpret_cast<cuda_copy_component *>(component);
    }
    static cuda_copy_component &of(uct_md_h md)
    {
        return *reinterpret_cast<domain *>(md)->of;
    }
    static cuda_copy_component &of(uct_ep_h ep) { return of(ep->iface->md); }
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

    // Must be first: of(uct_component_t *) casts to the class.
    whole_component component_{};
    uct_tl_t tl_{};
    domain md_{};
    void *md_ops_[max_ops]{};
    cuda_copy_ops *user_ = nullptr;
    std::atomic<bool> begun_{false};
    // By GPU ordinal: UCX's system device plus one; 0 if not looked up yet.
    static constexpr int max_gpus = 64;
    std::atomic<uint16_t> sys_devices_[max_gpus]{};

    // UCX's own functions.
    void (*component_register_)(void *component)    = nullptr;
    void (*tl_register_)(void *component, void *tl) = nullptr;
    void (*base_md_query_)(void *attributes)        = nullptr; // from 1.17
    query_md_resources_function *single_resource_   = nullptr;
    ucs_status_t (*single_device_)(uct_md_h md, const char *name,
                                   uct_device_type_t type, uint8_t sys_device,
                                   void **devices, unsigned *count) = nullptr;
    ucs_status_t (*memtype_cache_lookup_)(const void *address, size_t length,
                                          void *info)               = nullptr;
    // UCX reads the flags since 1.22; earlier versions ignore them.
    void (*memtype_cache_update_)(const void *address, size_t length,
                                  ucs_memory_type_t type, uint8_t sys_device,
                                  uint8_t flags) = nullptr;
    // Sets an option of UCX itself; the name is without "UCX_".
    ucs_status_t (*set_global_option_)(const char *name,
                                       const char *value) = nullptr;
    // Null if this UCX cannot look up devices by PCI address.
    ucs_status_t (*find_sys_device_)(const cuda_copy_ops::pci_address *,
                                     uint8_t *sys_device)      = nullptr;
    void *stub_rkey_unpack_                                    = nullptr;
    void *rkey_compare_                                        = nullptr;
    const uct_tl_t *self_tl_                                   = nullptr;
    iface_open_function *self_open_                            = nullptr;
    ucs_status_t (*base_estimate_perf_)(uct_iface_h iface,
                                        uct_perf_attr_t *attr) = nullptr;
    // Functions of self's interfaces, the same for all of them.
    void *self_query_ = nullptr;
    void *internal_ops_[16]{};  // with our estimate_perf
    size_t types_from_     = 0; // offset of detect_mem_types in the attributes
    uint64_t access_types_ = 0;
};

} // namespace ucx_ib_dmabuf
