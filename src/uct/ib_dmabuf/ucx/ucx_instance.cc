// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_instance.h"
#include "log.h"
#include "versions.h"
#include <atomic>
#include <cstring>
#include <new>

namespace ucx_ib_dmabuf {

std::unique_ptr<ucx_instance> ucx_instance::look_up(library &&uct_ib,
                                                    uct_component_t *component,
                                                    const char **why)
{
    std::unique_ptr<ucx_instance> made(
        new ucx_instance(std::move(uct_ib), component));

    *why = made->find_all();
    return (*why == nullptr) ? std::move(made) : nullptr;
}

const char *ucx_instance::find_all()
{
    const char *missing = nullptr;

    if (((missing = look_up_ucs(uct_ib_, &ucs_)) != nullptr) ||
        ((missing = parser_.find(uct_ib_)) != nullptr) ||
        ((missing = look_up_ucm(uct_ib_, parser_, &ucm_)) != nullptr) ||
        ((missing = look_up_verbs(uct_ib_, &verbs_)) != nullptr)) {
        return missing;
    }
    ucm_.tries_exports = uct_ib_.symbol(sign_of_export_trials) != nullptr;
    char name[sizeof(component_->name)];
    if (!read_memory(component_->name, &name) ||
        !read_memory(&component_->md_open, &md_open_) ||
        (strncmp(name, "ib", sizeof(name)) != 0)) {
        return "a component with the name ib";
    }
    return !uct_ib_.has(reinterpret_cast<const void *>(md_open_))
               ? "an md_open of its own"
           : !is_writable(&component_->md_open)
               ? "a component that can be written"
               : nullptr;
}

bool ucx_instance::owns(const void *address) const
{
    return uct_ib_.has(address) ||
           (library::around(address).symbol(symbol_of_uct_ib) ==
            uct_ib_.symbol(symbol_of_uct_ib));
}

bool ucx_instance::is_with(const library &other) const
{
    return other.symbol(symbol_of_ucs) == uct_ib_.symbol(symbol_of_ucs);
}

// Returns nullptr, or what the open domain lacks. Another version may have
// anything there.
const char *ucx_instance::check(uct_md_h md, const char *name,
                                ibv_pd **pd) const
{
    const char *const at = reinterpret_cast<const char *>(md);
    uct_md_t begin;
    ibv_context *context;
    ibv_device *device;
    char device_name[sizeof(device->name)];

    if (!read_memory(at, &begin) || (begin.component != component_) ||
        !owns(begin.ops)) {
        return "operations of uct_ib's";
    }
    if (!read_memory(at + pd_offset, pd) ||
        !read_memory(&(*pd)->context, &context) ||
        !read_memory(&context->device, &device) ||
        !read_memory(device->name, &device_name)) {
        return "a protection domain";
    }
    return (strncmp(device_name, name, sizeof(device_name)) == 0)
               ? nullptr
               : "the protection domain of its device";
}

// Returns the value of a memory domain's setting; none in a version without it.
std::optional<int> ucx_instance::setting_of(const void *config,
                                            const char *name) const
{
    config_parser::ucx_setting setting;
    int value;

    if ((config == nullptr) ||
        !parser_.find_setting("IB memory domain", name, &setting)) {
        return std::nullopt;
    }
    memcpy(&value, static_cast<const char *>(config) + setting.offset,
           sizeof(value));
    return value;
}

bool ucx_instance::override_md(uct_md_h md, const char *name,
                               const void *config) const
{
    if (setting_of(config, "GPU_DIRECT_RDMA") == 0) { // neither "y" nor "try"
        log_info("ib_dmabuf: %s is left as it is: UCX_IB_GPU_DIRECT_RDMA=n",
                 name);
        return false;
    }
    ibv_pd *pd      = nullptr;
    const char *why = check(md, name, &pd);

    if (why != nullptr) {
        log_warn("ib_dmabuf: %s of the UCX of %s is left as it is: no %s", name,
                 path(), why);
        return false;
    }
    // Versions with this setting try each dma-buf with Data Direct first if the
    // device has it (uct_ib_mlx5dv_check_direct_nic).
    const bool data_direct = setting_of(config, "DIRECT_NIC").value_or(0) != 0;
    return install_override(*this, md, pd, data_direct, make_);
}

ucs_status_t ucx_instance::open(const char *name, const void *config,
                                uct_md_h *md) const noexcept
{
    const ucs_status_t status = md_open_(component_, name, config, md);
    bool overridden           = false;

    if (status != UCS_OK) {
        return status;
    }
    try {
        overridden = override_md(*md, name, config);
    } catch (const std::bad_alloc &) {
        log_warn("ib_dmabuf: no memory of the host to serve %s", name);
    }
    if (!overridden) {
        registers_unseen = true;
    }
    return status;
}

// Values from the environment or ucx.conf still override the default.
void ucx_instance::change_default(const char *table, const char *name,
                                  const char *value) const
{
    config_parser::ucx_setting setting;

    if (parser_.find_setting(table, name, &setting)) {
        // Other threads may read it meanwhile: both texts are valid.
        std::atomic_ref(*setting.default_value)
            .store(value, std::memory_order_relaxed);
    }
}

void ucx_instance::change_defaults() const noexcept
{
    // By default UCP registers the whole allocation around each buffer of CUDA
    // memory, for more hits in a cache above it. The plug-in does that itself,
    // and registers pools larger than UCX_IB_DMABUF_CHUNK_SIZE in chunks.
    change_default("UCP context", "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "rocm");
    // cuda_copy reports stream-ordered memory as managed memory, which is not
    // registered. From 1.22 on it tries each export before UCP chooses, so
    // memory that the driver does not export is staged as before. In earlier
    // versions a message would fail.
    if (ucm_.tries_exports) {
        change_default("Cuda-copy memory domain", "ASYNC_MEM_TYPE", "cuda");
    }
    // cuda_copy exports each allocation only to learn whether that is possible.
    if (knows_exports.load()) {
        change_default("Cuda-copy memory domain", "DMABUF", "n");
    }
}

} // namespace ucx_ib_dmabuf
