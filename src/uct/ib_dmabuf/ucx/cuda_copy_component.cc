// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_copy_component.h"
#include "cuda_module.h"
#include "library.h"
#include "look_up.h"
#include <cstring>

namespace ucx_ib_dmabuf {
namespace {

constexpr char component_name[] = "cuda_cpy"; // as UCX's own
constexpr char tl_name[]        = "cuda_copy";
constexpr char device_name[]    = "cuda";

constexpr uint64_t gpu_types = (uint64_t{1} << UCS_MEMORY_TYPE_CUDA) |
                               (uint64_t{1} << UCS_MEMORY_TYPE_CUDA_MANAGED);
constexpr uint64_t all_types =
    gpu_types | (uint64_t{1} << UCS_MEMORY_TYPE_HOST);

// An empty table of settings.
constexpr void *no_settings[16] = {};

// Replace operations that are not offered or have nothing to do.
ucs_status_t unsupported() noexcept
{
    return UCS_ERR_UNSUPPORTED;
}
ucs_status_t nothing() noexcept
{
    return UCS_OK;
}
template <class Function>
void *address_of(Function *function)
{
    return reinterpret_cast<void *>(function);
}

// UCX needs a handle to treat memory as registrable; nothing reads it.
ucs_status_t mem_reg(uct_md_h, void *, size_t, uintptr_t,
                     uct_mem_h *memh) noexcept
{
    *memh = const_cast<char *>(tl_name);
    return UCS_OK;
}

// uct_ib registers no other GPU memory. Memory that cannot be exported is not
// reported as CUDA memory.
uint8_t flags_of(const cuda_copy_ops::found &found)
{
    return (found.type == UCS_MEMORY_TYPE_CUDA) ? UCS_MEM_FLAG_REGISTRABLE : 0;
}

// Replaces uct_md_base_md_query(), which exists since 1.17. The libuct of 1.16
// clears all attributes first, and 0 is right for the others.
constexpr size_t detect_types_1_16 = 56;
void base_md_query_1_16(void *attributes) noexcept
{
    constexpr size_t max_reg = 16, local_cpus = 128, cpus_size = 128;
    char *const at = static_cast<char *>(attributes);

    memset(at + max_reg, 0xff, sizeof(size_t));
    memset(at + local_cpus, 0xff, cpus_size);
}

} // namespace

cuda_copy_component *cuda_copy_component::make(const library &uct_ib,
                                               cuda_copy_ops &user,
                                               const char **why)
{
    auto *made  = new cuda_copy_component;
    made->user_ = &user;
    *why        = made->look_up(uct_ib);
    if (*why != nullptr) {
        delete made;
        return nullptr;
    }
    made->fill_domain();
    made->fill_component();
    made->fill_tl(*made->self_tl_);
    return made;
}

// Returns nullptr, or what is missing.
const char *cuda_copy_component::look_up(const library &uct_ib)
{
    class look_up in(uct_ib);
    char name[16] = {};

    in.find("uct_component_register", &component_register_);
    in.find("uct_tl_register", &tl_register_);
    in.find("uct_md_query_single_md_resource", &single_resource_);
    in.find("uct_single_device_resource", &single_device_);
    in.find("uct_md_stub_rkey_unpack", &stub_rkey_unpack_);
    in.find("uct_base_rkey_compare", &rkey_compare_);
    in.find("uct_base_iface_estimate_perf", &base_estimate_perf_);
    in.find("ucs_memtype_cache_lookup", &memtype_cache_lookup_);
    in.find("ucs_memtype_cache_update", &memtype_cache_update_);
    in.find("ucs_global_opts_set_value", &set_global_option_);
    in.find_variable("uct_self_tl", &self_tl_);
    if (in.missing() != nullptr) {
        return in.missing();
    }
    find_sys_device_ = reinterpret_cast<decltype(find_sys_device_)>(
        uct_ib.symbol("ucs_topo_find_device_by_bus_id"));
    // Until 1.18 UCP asks for an estimate without memory types. There, omitting
    // host memory prevents copies between two host buffers.
    access_types_ = (uct_ib.symbol("uct_rkey_unpack_v2") != nullptr)
                        ? all_types
                        : gpu_types;
    if (!read_memory(self_tl_, &name) || (strcmp(name, "self") != 0)) {
        return "a transport with the name self";
    }
    if (const char *missing = look_up_attributes(uct_ib)) {
        return missing;
    }
    return has_cuda_module(uct_ib) ? "need of it: it has CUDA" : nullptr;
}

// Finds the offset of the memory types in a domain's attributes. UCX's defaults
// fill every field except the component's name, which libuct adds.
const char *cuda_copy_component::look_up_attributes(const library &uct_ib)
{
    constexpr unsigned char untouched = 0xa5;
    constexpr size_t name_length      = 16;
    constexpr size_t to_name          = 6 * sizeof(uint64_t);
    unsigned char attributes[4096];

    base_md_query_ = reinterpret_cast<decltype(base_md_query_)>(
        uct_ib.symbol("uct_md_base_md_query"));
    if (base_md_query_ == nullptr) {
        base_md_query_ = base_md_query_1_16;
        types_from_    = detect_types_1_16;
        return nullptr;
    }
    memset(attributes, untouched, sizeof(attributes));
    base_md_query_(attributes);
    for (size_t at = offsetof(uct_md_attr_v2, reg_mem_types); at < 256;
         at += sizeof(uint64_t)) {
        if (attributes[at] != untouched) {
            continue;
        }
        const bool is_name = (at == 104) || (at == 112); // 1.17, from 1.18
        if (is_name && (attributes[at + name_length] != untouched)) {
            types_from_ = at - to_name;
            return nullptr;
        }
        break;
    }
    return "a memory domain's attributes as they are known";
}

void cuda_copy_component::fill_component()
{
    whole_component &all = component_;

    memcpy(all.name, component_name, sizeof(component_name));
    all.query_md_resources = query_md_resources;
    all.md_open            = md_open;
    all.cm_open            = address_of(unsupported);
    all.rkey_unpack        = stub_rkey_unpack_;
    all.rkey_ptr           = address_of(unsupported);
    all.rkey_release       = address_of(nothing);
    all.rkey_compare       = rkey_compare_;
    all.md_config.name     = "CUDA copies memory domain";
    all.md_config.prefix   = "CUDA_COPY_";
    all.md_config.table    = no_settings;
    all.md_config.size     = sizeof(void *);
    all.cm_config.name     = "";
    all.cm_config.prefix   = "";
    all.tl_list            = {&all.tl_list, &all.tl_list};
    all.md_vfs_init        = address_of(nothing);
}

void cuda_copy_component::fill_tl(const uct_tl_t &self)
{
    memcpy(tl_.name, tl_name, sizeof(tl_name));
    tl_.query_devices = query_devices;
    tl_.iface_open    = iface_open;
    tl_.config.name   = "cuda_copy transport";
    tl_.config.prefix = "CUDA_COPY_";
    tl_.config.table  = self.config.table;
    tl_.config.size   = self.config.size;
    self_open_        = self.iface_open;
}

// The index of other operations differs between versions; none is offered.
void cuda_copy_component::fill_domain()
{
    enum { op_mem_query = 7, op_detect = 10 };

    for (void *&op : md_ops_) {
        op = address_of(unsupported);
    }
    md_ops_[op_close]     = address_of(nothing);
    md_ops_[op_query]     = address_of(md_query);
    md_ops_[op_mem_reg]   = address_of(mem_reg);
    md_ops_[op_mem_dereg] = address_of(nothing);
    md_ops_[op_mem_query] = address_of(mem_query);
    md_ops_[op_mkey_pack] = address_of(nothing);
    md_ops_[op_detect]    = address_of(detect);
    md_.uct.ops           = md_ops_;
    md_.uct.component     = reinterpret_cast<uct_component_t *>(&component_);
    md_.of                = this;
}

void cuda_copy_component::show()
{
    component_register_(&component_);
    tl_register_(&component_, &tl_);
}

ucs_status_t cuda_copy_component::query_md_resources(uct_component_t *component,
                                                     void **resources,
                                                     unsigned *count) noexcept
{
    const cuda_copy_component &self = of(component);

    if (!self.user_->has_gpu()) {
        *resources = nullptr;
        *count     = 0;
        return UCS_OK;
    }
    return self.single_resource_(component, resources, count);
}

ucs_status_t cuda_copy_component::md_open(uct_component_t *component,
                                          const char *, const void *,
                                          uct_md_h *md) noexcept
{
    cuda_copy_component &self = of(component);
    uint64_t info[16]; // any version's ucs_memory_info_t

    // UCX creates the memory type cache at the first lookup.
    self.memtype_cache_lookup_(&self, 1, info);
    if (!self.begun_.load()) {      // hooks announce later allocations
        if (!self.user_->begin()) { // UCX considers an empty cache complete
            self.memtype_cache_update_(&self, 1, UCS_MEMORY_TYPE_CUDA,
                                       unknown_sys_device, 0);
            self.set_global_option_("MEMTYPE_CACHE", "n");
        }
        self.begun_.store(true);
    }
    *md = &self.md_.uct;
    return UCS_OK;
}

ucs_status_t cuda_copy_component::md_query(uct_md_h md,
                                           void *attributes) noexcept
{
    const cuda_copy_component &self = of(md);

    struct {
        uint64_t detect, alloc, access;
    } types{gpu_types, 0, self.access_types_};
    // Offers no allocation: UCP would allocate its pipeline's fragments in GPU
    // memory, and free some in the middle of a message. The free waits for
    // kernels.
    self.base_md_query_(attributes);
    auto *attr          = static_cast<uct_md_attr_v2 *>(attributes);
    attr->flags         = UCT_MD_FLAG_REG;
    attr->reg_mem_types = all_types;
    memcpy(static_cast<char *>(attributes) + self.types_from_, &types,
           sizeof(types));
    return UCS_OK;
}

// UCX chooses nearby NICs by the system device.
uint8_t cuda_copy_component::sys_device_of(int gpu)
{
    cuda_copy_ops::pci_address place{};
    uint8_t found = unknown_sys_device;

    if ((find_sys_device_ == nullptr) || (gpu < 0) || (gpu >= max_gpus)) {
        return unknown_sys_device;
    }
    if (const uint16_t known = sys_devices_[gpu].load(); known != 0) {
        return static_cast<uint8_t>(known - 1);
    }
    if (!user_->place(gpu, &place) ||
        (find_sys_device_(&place, &found) != UCS_OK)) {
        found = unknown_sys_device;
    }
    sys_devices_[gpu].store(static_cast<uint16_t>(found + 1));
    return found;
}

// Fills UCX's memory type cache; otherwise UCX asks at each use.
ucs_status_t cuda_copy_component::ask(const void *address, size_t length,
                                      cuda_copy_ops::found *out,
                                      uint8_t *sys_dev)
{
    const ucs_status_t status =
        user_->detect(reinterpret_cast<uintptr_t>(address), length, out);

    if (status != UCS_OK) {
        return status;
    }
    *sys_dev = sys_device_of(out->gpu);
    if (out->lasts) {
        memtype_cache_update_(reinterpret_cast<void *>(out->base), out->length,
                              out->type, *sys_dev, flags_of(*out));
    }
    return UCS_OK;
}

ucs_status_t cuda_copy_component::mem_query(uct_md_h md, const void *address,
                                            size_t length,
                                            uct_md_mem_attr_t *attr) noexcept
{
    const auto wanted = [attr](uint64_t field) {
        return (attr->field_mask & field) != 0;
    };
    cuda_copy_ops::found found{};
    uint8_t sys_dev           = unknown_sys_device;
    const ucs_status_t status = of(md).ask(address, length, &found, &sys_dev);

    if (status != UCS_OK) {
        return status;
    }
    if (wanted(UCT_MD_MEM_ATTR_FIELD_MEM_TYPE)) {
        attr->mem_type = found.type;
    }
    if (wanted(UCT_MD_MEM_ATTR_FIELD_SYS_DEV)) {
        attr->sys_dev = sys_dev;
    }
    if (wanted(UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS)) {
        attr->base_address = reinterpret_cast<void *>(found.base);
    }
    if (wanted(UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH)) {
        attr->alloc_length = found.length;
    }
    // The domains of uct_ib export dma-bufs for NICs.
    if (wanted(UCT_MD_MEM_ATTR_FIELD_DMABUF_FD)) {
        attr->dmabuf_fd = -1;
    }
    if (wanted(UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET)) {
        attr->dmabuf_offset = 0;
    }
    if (wanted(UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS)) {
        attr->mem_flags = flags_of(found);
    }
    return UCS_OK;
}

ucs_status_t cuda_copy_component::detect(uct_md_h md, const void *address,
                                         size_t length,
                                         ucs_memory_type_t *type) noexcept
{
    cuda_copy_ops::found found{};
    uint8_t sys_dev           = unknown_sys_device;
    const ucs_status_t status = of(md).ask(address, length, &found, &sys_dev);

    if (status == UCS_OK) {
        *type = found.type;
    }
    return status;
}

ucs_status_t cuda_copy_component::query_devices(uct_md_h md, void **devices,
                                                unsigned *count) noexcept
{
    return of(md).single_device_(md, device_name, UCT_DEVICE_TYPE_ACC,
                                 unknown_sys_device, devices, count);
}

} // namespace ucx_ib_dmabuf
