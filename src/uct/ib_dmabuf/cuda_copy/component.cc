// SPDX-License-Identifier: BSD-3-Clause
#include "component.h"
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <string_view>
#include <uct/ib_dmabuf/ucx/library.h>
#include <uct/ib_dmabuf/ucx/versions.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr char component_name[] = "cuda_cpy"; // as UCX's own
constexpr char tl_name[]        = "cuda_copy";
constexpr char device_name[]    = "cuda";

constexpr uint64_t gpu_types = (uint64_t{1} << UCS_MEMORY_TYPE_CUDA) |
                               (uint64_t{1} << UCS_MEMORY_TYPE_CUDA_MANAGED);
constexpr uint64_t all_types =
    gpu_types | (uint64_t{1} << UCS_MEMORY_TYPE_HOST);

constexpr void *no_settings[16] = {};

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

// Replaces uct_md_base_md_query(). The libuct of 1.16 clears all attributes
// first, and 0 is right for the others.
void base_md_query_1_16(void *attributes) noexcept
{
    char *const at = static_cast<char *>(attributes);

    memset(at + offsetof(uct_md_attr_v2, max_reg), 0xff, sizeof(size_t));
    memset(at + md_attr_local_cpus_1_16, 0xff, md_attr_local_cpus_1_16_size);
}

ucs_status_t query_md_resources(uct_component_t *component, void **resources,
                                unsigned *count) noexcept
{
    const cuda_copy_component &self = cuda_copy_component::of(component);

    if (!self.user->has_gpu()) {
        *resources = nullptr;
        *count     = 0;
        return UCS_OK;
    }
    return self.single_resource(component, resources, count);
}

ucs_status_t md_open(uct_component_t *component, const char *, const void *,
                     uct_md_h *md) noexcept
{
    cuda_copy_component &self = cuda_copy_component::of(component);
    uint64_t info[16]; // any version's ucs_memory_info_t

    // UCX creates the memory type cache at the first lookup.
    self.memtype_cache_lookup(&self, 1, info);
    if (!self.begun.load()) {      // hooks announce later allocations
        if (!self.user->begin()) { // UCX considers an empty cache complete
            self.memtype_cache_update(&self, 1, UCS_MEMORY_TYPE_CUDA,
                                      unknown_sys_device, 0);
            self.set_global_option("MEMTYPE_CACHE", "n");
        }
        self.begun.store(true);
    }
    *md = &self.md.uct;
    return UCS_OK;
}

ucs_status_t md_query(uct_md_h md, void *attributes) noexcept
{
    const cuda_copy_component &self = cuda_copy_component::of(md);

    struct {
        uint64_t detect, alloc, access;
    } types{gpu_types, 0, self.access_types};
    // Offers no allocation: UCP would allocate its pipeline's fragments in GPU
    // memory, and free some in the middle of a message. The free waits for
    // kernels.
    self.base_md_query(attributes);
    auto *attr          = static_cast<uct_md_attr_v2 *>(attributes);
    attr->flags         = UCT_MD_FLAG_REG;
    attr->reg_mem_types = all_types;
    memcpy(static_cast<char *>(attributes) + self.types_from, &types,
           sizeof(types));
    return UCS_OK;
}

// UCX chooses nearby NICs by the system device.
uint8_t sys_device_of(const cuda_copy_component &self, int gpu)
{
    cuda_copy_ops::pci_address place{};
    uint8_t found = unknown_sys_device;

    return ((self.find_sys_device != nullptr) && (gpu >= 0) &&
            self.user->place(gpu, &place) &&
            (self.find_sys_device(&place, &found) == UCS_OK))
               ? found
               : unknown_sys_device;
}

ucs_status_t mem_query(uct_md_h md, const void *address, size_t length,
                       uct_md_mem_attr_t *attr) noexcept
{
    const cuda_copy_component &self = cuda_copy_component::of(md);
    cuda_copy_ops::found found{};
    const ucs_status_t status =
        self.user->detect(reinterpret_cast<uintptr_t>(address), length, &found);

    if (status != UCS_OK) {
        return status;
    }
    const uint8_t sys_dev = sys_device_of(self, found.gpu);
    auto *const base      = reinterpret_cast<void *>(found.base);
    if (found.lasts) { // otherwise UCX asks at each use
        self.memtype_cache_update(base, found.length, found.type, sys_dev,
                                  flags_of(found));
    }
    const auto set = [attr](uint64_t field, auto *to, auto value) {
        if ((attr->field_mask & field) != 0) {
            *to = value;
        }
    };
    set(UCT_MD_MEM_ATTR_FIELD_MEM_TYPE, &attr->mem_type, found.type);
    set(UCT_MD_MEM_ATTR_FIELD_SYS_DEV, &attr->sys_dev, sys_dev);
    set(UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS, &attr->base_address, base);
    set(UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH, &attr->alloc_length, found.length);
    // The domains of uct_ib export dma-bufs for NICs.
    set(UCT_MD_MEM_ATTR_FIELD_DMABUF_FD, &attr->dmabuf_fd, -1);
    set(UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET, &attr->dmabuf_offset, 0);
    set(UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS, &attr->mem_flags, flags_of(found));
    return UCS_OK;
}

ucs_status_t detect(uct_md_h md, const void *address, size_t length,
                    ucs_memory_type_t *type) noexcept
{
    uct_md_mem_attr_t attr{};

    attr.field_mask           = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE;
    const ucs_status_t status = mem_query(md, address, length, &attr);
    if (status == UCS_OK) {
        *type = attr.mem_type;
    }
    return status;
}

ucs_status_t query_devices(uct_md_h md, void **devices,
                           unsigned *count) noexcept
{
    return cuda_copy_component::of(md).single_device(
        md, device_name, UCT_DEVICE_TYPE_ACC, unknown_sys_device, devices,
        count);
}

} // namespace

uct_component_t *find_component(const library &uct_ib, std::string_view name)
{
    symbols in(uct_ib);
    const ucs_list_link_t *head = nullptr;
    ucs_list_link_t link;
    char found[16];

    in.find_variable("uct_components_list", &head);
    if ((head == nullptr) || !read_memory(head, &link)) {
        return nullptr;
    }
    while (link.next != head) {
        char *component = reinterpret_cast<char *>(link.next) -
                          offsetof(uct_component_t, list);
        if (!read_memory(link.next, &link) || !read_memory(component, &found)) {
            return nullptr;
        }
        if (strncmp(found, name.data(), name.size()) == 0) {
            return reinterpret_cast<uct_component_t *>(component);
        }
    }
    return nullptr;
}

// A module with missing dependencies does not load, so dlopen() decides. If
// UCX_MODULES may exclude the module, its file decides.
bool has_cuda_module(const library &uct_ib)
{
    constexpr std::string_view ib = "_ib.so";
    std::string path              = uct_ib.path();
    const size_t at               = path.rfind(ib);
    char modules[8]               = "";
    ucs_status_t (*get)(const char *name, char *value, size_t max);

    if (find_component(uct_ib, "cuda_") != nullptr) {
        return true;
    }
    if ((at == std::string::npos) ||
        !uct_ib.find("ucs_global_opts_get_value", &get)) {
        return false;
    }
    path.replace(at, ib.size(), "_cuda.so");
    get("MODULES", modules, sizeof(modules));
    return (strcmp(modules, "all") == 0)
               ? (dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr)
               : (access(path.c_str(), F_OK) == 0);
}

cuda_copy_component *cuda_copy_component::make(const library &uct_ib,
                                               cuda_copy_ops &user,
                                               const char **why)
{
    auto *made = new cuda_copy_component;
    made->user = &user;
    *why       = made->look_up(uct_ib);
    if (*why != nullptr) {
        delete made;
        return nullptr;
    }
    made->fill_md();
    made->fill_component();
    made->fill_tl();
    return made;
}

const char *cuda_copy_component::missing(const library &uct_ib)
{
    return cuda_copy_component().look_up(uct_ib);
}

const char *cuda_copy_component::look_up(const library &uct_ib)
{
    symbols in(uct_ib);
    char name[16] = {};

    in.find("uct_component_register", &component_register);
    in.find("uct_tl_register", &tl_register);
    in.find("uct_md_query_single_md_resource", &single_resource);
    in.find("uct_single_device_resource", &single_device);
    in.find("uct_md_stub_rkey_unpack", &stub_rkey_unpack);
    in.find("uct_base_rkey_compare", &rkey_compare);
    in.find("uct_base_iface_estimate_perf", &base_estimate_perf);
    in.find("ucs_memtype_cache_lookup", &memtype_cache_lookup);
    in.find("ucs_memtype_cache_update", &memtype_cache_update);
    in.find("ucs_global_opts_set_value", &set_global_option);
    in.find_variable("uct_self_tl", &self_tl);
    if (in.missing() != nullptr) {
        return in.missing();
    }
    uct_ib.find("ucs_topo_find_device_by_bus_id", &find_sys_device);
    // Until 1.18 UCP asks for an estimate without memory types. There, omitting
    // host memory prevents copies between two host buffers.
    access_types = (uct_ib.symbol(sign_of_typed_estimates) != nullptr)
                       ? all_types
                       : gpu_types;
    if (!read_memory(self_tl, &name) || (strcmp(name, "self") != 0)) {
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
    unsigned char attributes[4096];

    if (!uct_ib.find(sign_of_base_md_query, &base_md_query)) {
        base_md_query = base_md_query_1_16;
        types_from    = md_attr_detect_types_1_16;
        return nullptr;
    }
    memset(attributes, untouched, sizeof(attributes));
    base_md_query(attributes);
    size_t name = offsetof(uct_md_attr_v2, reg_mem_types);
    while ((name < 256) && (attributes[name] != untouched)) {
        name += sizeof(uint64_t);
    }
    if (is_md_attr_component_name(name) &&
        (attributes[name + sizeof(uct_component_t::name)] != untouched)) {
        types_from = name - md_attr_types_to_name;
        return nullptr;
    }
    return "a memory domain's attributes as they are known";
}

void cuda_copy_component::fill_component()
{
    memcpy(component.name, component_name, sizeof(component_name));
    component.query_md_resources = query_md_resources;
    component.md_open            = md_open;
    component.cm_open            = address_of(unsupported);
    component.rkey_unpack        = stub_rkey_unpack;
    component.rkey_ptr           = address_of(unsupported);
    component.rkey_release       = address_of(nothing);
    component.rkey_compare       = rkey_compare;
    component.md_config          = {"CUDA copies memory domain",
                                    "CUDA_COPY_",
                                    no_settings,
                                    sizeof(void *),
                                    {},
                                    0};
    component.cm_config.name     = "";
    component.cm_config.prefix   = "";
    component.tl_list            = {&component.tl_list, &component.tl_list};
    component.md_vfs_init        = address_of(nothing);
}

void cuda_copy_component::fill_tl()
{
    memcpy(tl.name, tl_name, sizeof(tl_name));
    tl.query_devices = query_devices;
    tl.iface_open    = cuda_copy_iface_open;
    tl.config = {"cuda_copy transport", "CUDA_COPY_", self_tl->config.table,
                 self_tl->config.size,  {},           0};
}

// The index of other operations differs between versions; none is offered.
void cuda_copy_component::fill_md()
{
    for (void *&op : md_ops) {
        op = address_of(unsupported);
    }
    md_ops[op_close]     = address_of(nothing);
    md_ops[op_query]     = address_of(md_query);
    md_ops[op_mem_reg]   = address_of(mem_reg);
    md_ops[op_mem_dereg] = address_of(nothing);
    md_ops[op_mem_query] = address_of(mem_query);
    md_ops[op_mkey_pack] = address_of(nothing);
    md_ops[op_detect]    = address_of(detect);
    md.uct.ops           = md_ops;
    md.uct.component     = &component;
    md.of                = this;
}

void cuda_copy_component::show()
{
    component_register(&component);
    tl_register(&component, &tl);
}

} // namespace ucx_ib_dmabuf
