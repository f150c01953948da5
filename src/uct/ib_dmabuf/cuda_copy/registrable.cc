// SPDX-License-Identifier: BSD-3-Clause
//
// From 1.22 on, UCX's own cuda_copy exports each new allocation only to learn
// whether it can be registered. Without that (UCX_CUDA_COPY_DMABUF=n) all
// memory is registrable to it. Here the plug-in corrects the answers.
#include "cuda_copy.h"
#include <array>
#include <atomic>
#include <mutex>
#include <uct/ib_dmabuf/ucx/abi.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf {
namespace {

using mem_alloc_function = // from 1.20 on
    ucs_status_t(uct_md_h md, size_t *length, void **address,
                 ucs_memory_type_t type, uint8_t sys_dev, unsigned flags,
                 const char *name, uct_mem_h *memh);
using mem_query_function = ucs_status_t(uct_md_h md, const void *address,
                                        size_t length, uct_md_mem_attr_t *attr);

// A cuda_copy with its md_open replaced. Entries are only added.
struct corrected_component {
    uct_component_t *component;
    md_open_function *md_open; // the original
    cuda_copy_ops *user;
    void (*memtype_cache_update)(const void *address, size_t length,
                                 ucs_memory_type_t type, uint8_t sys_device,
                                 uint8_t flags);
    // Functions of all its domains, set when the first one opens.
    std::once_flag once;
    mem_alloc_function *mem_alloc;
    mem_query_function *mem_query;
    std::array<void *, max_md_ops> ops;
};
std::array<corrected_component, 16> all;
std::atomic<size_t> count;

corrected_component &find(const uct_component_t *component)
{
    size_t i = count.load(std::memory_order_acquire) - 1;

    while (all[i].component != component) {
        --i;
    }
    return all[i];
}

ucs_status_t mem_query(uct_md_h md, const void *address, size_t length,
                       uct_md_mem_attr_t *attr) noexcept
{
    constexpr uint64_t needed =
        UCT_MD_MEM_ATTR_FIELD_MEM_TYPE | UCT_MD_MEM_ATTR_FIELD_SYS_DEV |
        UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS |
        UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH | UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS;
    const corrected_component &self = find(md->component);
    const uint64_t asked            = attr->field_mask;

    attr->field_mask |= needed;
    const ucs_status_t status = self.mem_query(md, address, length, attr);
    attr->field_mask          = asked;
    // Memory of the host is registered without an export.
    if ((status == UCS_OK) && (address != nullptr) &&
        (attr->sys_dev != unknown_sys_device) &&
        ((attr->mem_flags & UCS_MEM_FLAG_REGISTRABLE) != 0) &&
        ((attr->mem_type != UCS_MEMORY_TYPE_CUDA) ||
         !self.user->is_exportable(reinterpret_cast<uintptr_t>(address)))) {
        attr->mem_flags = 0;
        self.memtype_cache_update(attr->base_address, attr->alloc_length,
                                  attr->mem_type, attr->sys_dev, 0);
    }
    return status;
}

// The original calls its own query, which is not corrected.
ucs_status_t mem_alloc(uct_md_h md, size_t *length, void **address,
                       ucs_memory_type_t type, uint8_t sys_dev, unsigned flags,
                       const char *name, uct_mem_h *memh) noexcept
{
    const ucs_status_t status =
        find(md->component)
            .mem_alloc(md, length, address, type, sys_dev, flags, name, memh);
    if (status == UCS_OK) {
        uct_md_mem_attr_t attr{};
        mem_query(md, *address, *length, &attr);
    }
    return status;
}

ucs_status_t md_open(uct_component_t *component, const char *name,
                     const void *config, uct_md_h *md) noexcept
{
    corrected_component &self = find(component);
    const ucs_status_t status = self.md_open(component, name, config, md);

    if (status == UCS_OK) {
        std::call_once(self.once, [&] {
            // The number of operations differs between versions.
            read_table((*md)->ops, self.ops);
            self.mem_alloc =
                reinterpret_cast<mem_alloc_function *>(self.ops[op_mem_alloc]);
            self.mem_query =
                reinterpret_cast<mem_query_function *>(self.ops[op_mem_query]);
            self.ops[op_mem_alloc] = reinterpret_cast<void *>(&mem_alloc);
            self.ops[op_mem_query] = reinterpret_cast<void *>(&mem_query);
        });
        (*md)->ops = self.ops.data();
    }
    return status;
}

} // namespace

bool correct_cuda_copy(const library &uct_ib, cuda_copy_ops &user)
{
    static std::mutex mutex;
    uct_component_t *const component = find_component(uct_ib, "cuda_cpy");
    decltype(corrected_component::memtype_cache_update) update;

    if ((component == nullptr) ||
        !uct_ib.find("ucs_memtype_cache_update", &update)) {
        return false;
    }
    const std::lock_guard<std::mutex> guard(mutex);
    const size_t next = count.load(std::memory_order_relaxed);
    if (component->md_open == md_open) {
        return true; // another thread was faster
    }
    if ((next == all.size()) || !is_writable(&component->md_open)) {
        return false;
    }
    corrected_component &made = all[next];
    made.component            = component;
    made.md_open              = component->md_open;
    made.user                 = &user;
    made.memtype_cache_update = update;
    count.store(next + 1, std::memory_order_release);
    std::atomic_ref(component->md_open).store(md_open);
    return true;
}

} // namespace ucx_ib_dmabuf
