// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cuda_copy.h"
#include <atomic>
#include <uct/ib_dmabuf/ucx/abi.h>

namespace ucx_ib_dmabuf {

// A UCT component "cuda_cpy" with the transport "cuda_copy", for a UCX instance
// without CUDA. Its interfaces are those of UCX's transport "self" with some
// operations replaced. UCX stores pointers to it: it is never destroyed.
struct cuda_copy_component {
    // For the UCX instance of this libuct_ib. Returns nullptr and sets `why` if
    // that has CUDA itself or is not as expected.
    static cuda_copy_component *make(const library &uct_ib, cuda_copy_ops &user,
                                     const char **why);
    // Returns nullptr, or what a UCX instance without CUDA lacks.
    static const char *missing(const library &uct_ib);
    // Registers it with UCX.
    void show();

    cuda_copy_component(const cuda_copy_component &)            = delete;
    cuda_copy_component &operator=(const cuda_copy_component &) = delete;

    static cuda_copy_component &of(uct_component_t *component)
    {
        return *reinterpret_cast<cuda_copy_component *>(component);
    }
    static cuda_copy_component &of(uct_md_h md)
    {
        return *reinterpret_cast<memory_domain *>(md)->of;
    }
    static cuda_copy_component &of(uct_ep_h ep) { return of(ep->iface->md); }

    // Must be first: of(uct_component_t *) casts to the class.
    uct_component_t component{};
    uct_tl_t tl{};
    struct memory_domain {
        uct_md_t uct;
        cuda_copy_component *of;
    } md{};
    void *md_ops[max_md_ops]{};
    cuda_copy_ops *user = nullptr;
    std::atomic<bool> begun{false};

    // UCX's own functions.
    void (*component_register)(void *component)    = nullptr;
    void (*tl_register)(void *component, void *tl) = nullptr;
    void (*base_md_query)(void *attributes)        = nullptr; // from 1.17
    query_md_resources_function *single_resource   = nullptr;
    ucs_status_t (*single_device)(uct_md_h md, const char *name,
                                  uct_device_type_t type, uint8_t sys_device,
                                  void **devices, unsigned *count) = nullptr;
    ucs_status_t (*memtype_cache_lookup)(const void *address, size_t length,
                                         void *info)               = nullptr;
    // UCX reads the flags since 1.22; earlier versions ignore them.
    void (*memtype_cache_update)(const void *address, size_t length,
                                 ucs_memory_type_t type, uint8_t sys_device,
                                 uint8_t flags)          = nullptr;
    ucs_status_t (*set_global_option)(const char *name,
                                      const char *value) = nullptr;
    // Null if this UCX cannot look up devices by PCI address.
    ucs_status_t (*find_sys_device)(const cuda_copy_ops::pci_address *,
                                    uint8_t *sys_device)      = nullptr;
    void *stub_rkey_unpack                                    = nullptr;
    void *rkey_compare                                        = nullptr;
    const uct_tl_t *self_tl                                   = nullptr;
    ucs_status_t (*base_estimate_perf)(uct_iface_h iface,
                                       uct_perf_attr_t *attr) = nullptr;
    // Functions of self's interfaces, the same for all of them.
    iface_query_function *self_query = nullptr;
    void *internal_ops[16]{};  // with our estimate_perf
    size_t types_from     = 0; // offset of detect_mem_types in the attributes
    uint64_t access_types = 0;

private:
    cuda_copy_component()  = default;
    ~cuda_copy_component() = default;
    const char *look_up(const library &uct_ib);
    const char *look_up_attributes(const library &uct_ib);
    void fill_component();
    void fill_tl();
    void fill_md();
};

// iface_open of the transport (iface.cc).
ucs_status_t cuda_copy_iface_open(uct_md_h md, void *worker, const void *params,
                                  const void *config,
                                  uct_iface_h *iface) noexcept;

} // namespace ucx_ib_dmabuf
