// SPDX-License-Identifier: BSD-3-Clause
#include "fake_ib.h"
#include <cerrno>
#include <common/alloc_faults.h>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>

using namespace ucx_ib_dmabuf;

namespace fake_ib {

counts now;
void *ops[max_md_ops];

namespace {

// Nothing is registered while a test counts, unless it tests that.
const int is_off = setenv("UCX_IB_DMABUF_PREFETCH", "n", 0);

std::mutex mutex;
uint32_t last_key = 1000;

struct nic {
    ibv_device device;
    ibv_context context;
    ibv_pd pd;
};
std::map<std::string, nic> nics; // by name

struct fake_md { // uct_ib_md_t
    uct_md_t super;
    ibv_pd *pd;
};
static_assert(offsetof(fake_md, pd) == pd_offset);

// ibv_reg_dmabuf_mr()
ibv_mr *reg_dmabuf(ibv_pd *domain, int fd, uint64_t address, size_t length)
{
    if (fcntl(fd, F_GETFD) < 0) {
        errno = EBADF;
        return nullptr;
    }
    if (now.during_reg) {
        now.during_reg();
    }
    alloc_faults::exempt from_it;
    std::lock_guard<std::mutex> guard(mutex);
    static unsigned attempts = 0;

    if (now.gone ||
        ((now.fail_verbs != 0) && (++attempts % now.fail_every == 0))) {
        errno = now.gone ? EIO : now.fail_verbs;
        return nullptr;
    }
    if (now.regions.size() >= now.most) {
        errno = EAGAIN;
        return nullptr;
    }
    auto *mr    = new ibv_mr{};
    mr->context = domain->context;
    mr->pd      = domain;
    mr->addr    = reinterpret_cast<void *>(address);
    mr->length  = length;
    mr->lkey    = ++last_key;
    mr->rkey    = ++last_key;
    now.regions.insert(mr);
    dmabufs &seen = now.of_device[mr->context->device->name];
    ++seen.made;
    seen.bytes += length;
    return mr;
}

// ibv_dereg_mr()
bool dereg_dmabuf(ibv_mr *mr)
{
    if (now.during_dereg) {
        now.during_dereg();
    }
    std::lock_guard<std::mutex> guard(mutex);

    if (now.gone || (now.regions.erase(mr) == 0)) {
        return false;
    }
    ++now.of_device[mr->context->device->name].ended;
    delete mr;
    return true;
}

ucs_status_t query(uct_md_h, uct_md_attr_v2 *attr)
{
    attr->flags         = now.flags;
    attr->reg_mem_types = now.memory_types;
    return UCS_OK;
}

ucs_status_t mem_reg(uct_md_h md, void *address, size_t length,
                     const uct_md_mem_reg_params_t *params, uct_mem_h *memh)
{
    const auto at  = reinterpret_cast<uintptr_t>(address);
    const bool any = (params->field_mask & UCT_MD_MEM_REG_FIELD_DMABUF_FD) != 0;

    if (any && (params->dmabuf_fd >= 0)) {
        ibv_mr *mr = reg_dmabuf(reinterpret_cast<fake_md *>(md)->pd,
                                params->dmabuf_fd, at, length);
        if (mr == nullptr) {
            return UCS_ERR_IO_ERROR; // as uct_ib does for all errors
        }
        alloc_faults::exempt from_it;
        std::lock_guard<std::mutex> guard(mutex);
        now.reg_params = *params;
        *memh          = new memory{mr->lkey, mr->rkey, 0, at, length, mr};
        return UCS_OK;
    }
    alloc_faults::exempt from_it;
    std::lock_guard<std::mutex> guard(mutex);

    ++now.asked;
    if (now.fail != UCS_OK) {
        return now.fail;
    }
    ++now.host;
    *memh = new memory{0, 0, 0, at, length, nullptr};
    return UCS_OK;
}

// As uct_ib_mlx5_devx_mem_dereg(), with its checks by
// UCT_MD_MEM_DEREG_CHECK_PARAMS.
ucs_status_t mem_dereg(uct_md_h, const uct_md_mem_dereg_params_t *params)
{
    if (((params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) == 0) ||
        (params->memh == nullptr)) {
        return UCS_ERR_INVALID_PARAM;
    }
    const auto *ended = static_cast<memory *>(params->memh);
    bool good         = true;
    if (ended->mr != nullptr) {
        good = dereg_dmabuf(ended->mr);
    } else {
        std::lock_guard<std::mutex> guard(mutex);
        --now.host;
    }
    delete ended;
    if (good && ((params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) != 0) &&
        ((params->flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE) != 0)) {
        invoke_completion(params->comp);
    }
    return good ? UCS_OK : UCS_ERR_IO_ERROR;
}

ucs_status_t mkey_pack(uct_md_h, uct_mem_h memh, void *, size_t length,
                       const uct_md_mkey_pack_params_t *params, void *buffer)
{
    const bool any = (params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) != 0;

    if (memh == nullptr) {
        return UCS_ERR_INVALID_PARAM; // as UCT does if it checks parameters
    }
    if (now.during_pack) {
        now.during_pack();
    }
    std::lock_guard<std::mutex> guard(mutex);
    now.packed                       = {length, any ? params->flags : 0};
    *static_cast<uint64_t *>(buffer) = static_cast<memory *>(memh)->rkey;
    return UCS_OK;
}

void close(uct_md_h md)
{
    now.domains -= md->ops == ops;
    delete reinterpret_cast<fake_md *>(md);
}

ucs_status_t iface_open(uct_md_h, void *, const void *params, const void *,
                        uct_iface_h *iface)
{
    static uct_iface_t unused;

    now.opened  = *static_cast<const uct_iface_params_t *>(params);
    now.open_by = "fake";
    *iface      = (now.iface != nullptr) ? now.iface : &unused;
    return now.fail_open;
}

ucs_status_t other_open(uct_md_h md, void *worker, const void *params,
                        const void *config, uct_iface_h *iface)
{
    const ucs_status_t status = iface_open(md, worker, params, config, iface);
    now.open_by               = "other";
    return status;
}

} // namespace

uct_tl_t transport{"fake", nullptr, iface_open, {}, {}};

namespace {

uct_tl_t other_transport{"other", nullptr, other_open, {}, {}};
template <class Function>
void set(md_op which, Function *function)
{
    ops[which] = reinterpret_cast<void *>(function);
}

void add_transport(uct_tl_t *tl)
{
    ucs_list_link_t *head = &uct_ib_component.tl_list;

    tl->list         = {head->prev, head};
    head->prev->next = &tl->list;
    head->prev       = &tl->list;
}

ucs_status_t md_open(uct_component_t *component, const char *name, const void *,
                     uct_md_h *md_p)
{
    alloc_faults::exempt from_it;
    nic &made = nics[name];

    for (size_t i = 0; i < max_md_ops; ++i) {
        ops[i] = &ops[i]; // operations that the plug-in does not know
    }
    set(op_close, close);
    set(op_query, query);
    set(op_mem_reg, mem_reg);
    set(op_mem_dereg, mem_dereg);
    set(op_mkey_pack, mkey_pack);
    strcpy(made.device.name, name);
    made.context.device = &made.device;
    made.pd.context     = &made.context;
    if (uct_ib_component.tl_list.next == nullptr) {
        uct_ib_component.tl_list = {&uct_ib_component.tl_list,
                                    &uct_ib_component.tl_list};
        add_transport(&other_transport);
        add_transport(&transport);
    }
    auto *md = new fake_md{{ops, component}, &made.pd};
    *md_p    = &md->super;
    ++now.domains;
    return UCS_OK;
}

} // namespace

const ibv_mr *find(uint32_t key)
{
    for (const ibv_mr *mr : now.regions) {
        if ((mr->lkey == key) || (mr->rkey == key)) {
            return mr;
        }
    }
    return nullptr;
}

} // namespace fake_ib

extern "C" {

uct_component_t uct_ib_component = [] {
    uct_component_t component{};
    component.md_open = fake_ib::md_open;
    strcpy(component.name, "ib");
    return component;
}();

// For the plug-in's proofs, which fail here for lack of connections.
#undef ibv_reg_mr_iova
ibv_mr *ibv_reg_mr_iova(ibv_pd *, void *, size_t, uint64_t, int)
{
    errno = EOPNOTSUPP;
    return nullptr;
}

int ibv_dereg_mr(ibv_mr *)
{
    return EINVAL;
}

} // extern "C"
