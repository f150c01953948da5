// SPDX-License-Identifier: BSD-3-Clause
#include "fake_ib.h"
#include <cerrno>
#include <common/alloc_faults.h>
#include <cstring>
#include <fcntl.h>
#include <mutex>

namespace fake_ib {

counts now;

namespace {

std::mutex mutex;
uint32_t last_key = 1000;

struct nic {
    ibv_device device;
    ibv_context context;
    ibv_pd pd;
};
std::map<std::string, nic> nics; // of these names

ibv_mr *add_region(std::set<ibv_mr *> *regions, ibv_pd *domain,
                   uint64_t address, size_t length)
{
    alloc_faults::exempt from_it;
    std::lock_guard<std::mutex> guard(mutex);
    static unsigned attempts = 0;

    if (now.gone ||
        ((now.fail_verbs != 0) && (++attempts % now.fail_every == 0))) {
        errno = now.gone ? EIO : now.fail_verbs;
        return nullptr;
    }
    if ((regions == &now.copies) &&
        (now.copies.size() + now.host >= now.locked_max)) {
        errno = ENOMEM;
        return nullptr;
    }
    auto *mr    = new ibv_mr{};
    mr->context = domain->context;
    mr->pd      = domain;
    mr->addr    = reinterpret_cast<void *>(address);
    mr->length  = length;
    mr->lkey    = ++last_key;
    mr->rkey    = ++last_key;
    regions->insert(mr);
    if (regions == &now.regions) {
        dmabufs &seen = now.of_device[mr->context->device->name];
        ++seen.made;
        seen.bytes += length;
    }
    return mr;
}

ucs_status_t query(uct_md_h, uct_md_attr_t *attr)
{
    *attr                   = {};
    attr->cap.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    return UCS_OK;
}

ucs_status_t mem_reg(uct_md_h, void *address, size_t length, unsigned flags,
                     uct_mem_h *memh)
{
    alloc_faults::exempt from_it;
    std::lock_guard<std::mutex> guard(mutex);

    ++now.asked;
    now.asked_aloud += (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) == 0;
    if (now.fail != UCS_OK) {
        return now.fail;
    }
    if (now.copies.size() + now.host >= now.locked_max) {
        return UCS_ERR_IO_ERROR; // as uct_ib for all errors
    }
    ++now.host;
    *memh = new host_memory{{}, address, length};
    return UCS_OK;
}

// The checks are uct_ib's (UCT_IB_MD_MEM_DEREG_CHECK_PARAMS).
ucs_status_t mem_dereg(uct_md_h, const uct_md_mem_dereg_params_t *params)
{
    if (!UCT_MD_MEM_DEREG_FIELD_VALUE(params, memh, FIELD_MEMH, NULL)) {
        return UCS_ERR_INVALID_PARAM;
    }
    delete static_cast<host_memory *>(params->memh);
    std::lock_guard<std::mutex> guard(mutex);
    --now.host;
    return UCS_OK;
}

ucs_status_t mkey_pack(uct_md_h, uct_mem_h, const uct_md_mkey_pack_params_t *,
                       void *)
{
    return UCS_OK;
}

void close(uct_md_h md)
{
    delete ucs_derived_of(md, uct_ib_md_t);
    --now.domains;
}

ucs_status_t iface_open(uct_md_h, uct_worker_h,
                        const uct_iface_params_t *params,
                        const uct_iface_config_t *, uct_iface_h *iface)
{
    now.opened  = *params;
    now.open_by = "fake";
    *iface      = nullptr;
    return now.fail_open;
}

ucs_status_t other_open(uct_md_h md, uct_worker_h worker,
                        const uct_iface_params_t *params,
                        const uct_iface_config_t *config, uct_iface_h *iface)
{
    const ucs_status_t status = iface_open(md, worker, params, config, iface);
    now.open_by               = "other";
    return status;
}

} // namespace

uct_tl_t transport{"fake", nullptr, iface_open, {}, {}};

namespace {

uct_tl_t other_transport{"other", nullptr, other_open, {}, {}};
uct_md_ops_t ops;

ucs_status_t md_open(uct_component_t *component, const char *name,
                     const uct_md_config_t *, uct_md_h *md_p)
{
    alloc_faults::exempt from_it;
    auto *md  = new uct_ib_md_t{};
    nic &made = nics[name];

    ops.close     = close;
    ops.query     = query;
    ops.mem_reg   = mem_reg;
    ops.mem_dereg = mem_dereg;
    ops.mkey_pack = mkey_pack;
    strcpy(made.device.name, name);
    made.context.device = &made.device;
    made.pd.context     = &made.context;
    if (component->tl_list.next == nullptr) {
        ucs_list_head_init(&component->tl_list);
        ucs_list_add_tail(&component->tl_list, &other_transport.list);
        ucs_list_add_tail(&component->tl_list, &transport.list);
    }
    md->super.ops        = &ops;
    md->super.component  = component;
    md->pd               = &made.pd;
    md->memh_struct_size = sizeof(uct_ib_mem_t) + 2 * sizeof(uct_ib_mr_t);
    *md_p                = &md->super;
    ++now.domains;
    return UCS_OK;
}

} // namespace

const ibv_mr *find(uint32_t key)
{
    for (const auto *regions : {&now.regions, &now.copies}) {
        for (const ibv_mr *mr : *regions) {
            if ((mr->lkey == key) || (mr->rkey == key)) {
                return mr;
            }
        }
    }
    return nullptr;
}

} // namespace fake_ib

extern "C" {

uct_component_t uct_ib_component = [] {
    uct_component_t component{};
    component.md_open = fake_ib::md_open;
    strcpy(const_cast<char *>(component.name), "ib");
    return component;
}();

ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, uint64_t, size_t length, uint64_t iova,
                          int fd, int)
{
    if (fcntl(fd, F_GETFD) < 0) {
        errno = EBADF;
        return nullptr;
    }
    if (fake_ib::now.during_reg) {
        fake_ib::now.during_reg();
    }
    return fake_ib::add_region(&fake_ib::now.regions, pd, iova, length);
}

#undef ibv_reg_mr_iova
ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *, size_t length, uint64_t iova, int)
{
    return fake_ib::add_region(&fake_ib::now.copies, pd, iova, length);
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *, size_t length, uint64_t iova,
                         unsigned)
{
    return fake_ib::add_region(&fake_ib::now.copies, pd, iova, length);
}

int ibv_dereg_mr(ibv_mr *mr)
{
    if (fake_ib::now.during_dereg) {
        fake_ib::now.during_dereg();
    }
    std::lock_guard<std::mutex> guard(fake_ib::mutex);

    if (fake_ib::now.gone) {
        return EIO;
    }
    if (fake_ib::now.regions.erase(mr) != 0) {
        ++fake_ib::now.of_device[mr->context->device->name].ended;
    } else if (fake_ib::now.copies.erase(mr) == 0) {
        return EINVAL;
    }
    delete mr;
    return 0;
}

} // extern "C"
