// SPDX-License-Identifier: BSD-3-Clause
#include "md_override.h"
#include "md_table.h"
#include "ucx_instance.h"
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <uct/ib_dmabuf/fork.h>

namespace ucx_ib_dmabuf {
namespace {

// False while every UCX has CUDA: then releases take no lock.
std::atomic<bool> any_registered{false};
// The start of each. Never destroyed: memory is released until exit.
struct registered_memory {
    std::mutex mutex;
    std::set<uintptr_t> starts;
};
auto &registered = *new registered_memory;

// For a forked child. Another thread of the parent may have held the lock: the
// child leaks what it protects.
void forget_registered() noexcept
{
    any_registered.store(false);
    new (&registered) registered_memory;
}

ucs_status_t md_query(uct_md_h md, uct_md_attr_v2 *attr) noexcept
{
    const md_table &self = md_table::of(md);
    const ucs_status_t status =
        self.original.op<md_query_function>(op_query)(md, attr);

    if (status == UCS_OK) {
        md_attributes known{attr->flags, attr->reg_mem_types};
        self.user->query(&known);
        attr->flags         = known.flags;
        attr->reg_mem_types = known.reg_mem_types;
    }
    return status;
}

ucs_status_t md_mem_reg(uct_md_h md, void *address, size_t length,
                        const uct_md_mem_reg_params_t *params,
                        uct_mem_h *memh) noexcept
{
    const md_table &self = md_table::of(md);
    const reg_request request{address, length, params};
    const bool has_fd =
        (params->field_mask & UCT_MD_MEM_REG_FIELD_DMABUF_FD) != 0;

    // uct_ib registers all addresses (for paging) and dma-bufs of the caller.
    // UCP passes no dma-buf, as the domain does not offer to register one.
    if (((request.flags() & UCT_MD_MEM_GVA) != 0) ||
        (has_fd && (params->dmabuf_fd >= 0))) {
        return self.original.reg(request, memh);
    }
    if (!self.original.instance().ucm().has_cuda &&
        may_be_allocated(request.start(), length)) {
        note_registered(request.start());
    }
    return self.user->reg(request, memh);
}

ucs_status_t md_mem_dereg(uct_md_h md,
                          const uct_md_mem_dereg_params_t *params) noexcept
{
    const md_table &self = md_table::of(md);

    if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) ||
        (params->memh == nullptr) || !handle_keys::are_in(params->memh)) {
        return self.original.op<md_mem_dereg_function>(op_mem_dereg)(md,
                                                                     params);
    }
    self.user->dereg(handle_keys::of(params->memh));
    if ((params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) &&
        (params->flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE) &&
        (params->field_mask & UCT_MD_MEM_DEREG_FIELD_COMPLETION)) {
        invoke_completion(params->comp);
    }
    return UCS_OK;
}

ucs_status_t md_mkey_pack(uct_md_h md, uct_mem_h memh, void *address,
                          size_t length,
                          const uct_md_mkey_pack_params_t *params,
                          void *buffer) noexcept
{
    const md_table &self = md_table::of(md);

    if ((memh == nullptr) || !handle_keys::are_in(memh)) {
        return self.original.op<md_mkey_pack_function>(op_mkey_pack)(
            md, memh, address, length, params, buffer);
    }
    const bool has_flags =
        (params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) != 0;
    return self.user->pack(
        {handle_keys::of(memh), address, length, has_flags ? params->flags : 0},
        buffer);
}

void md_close(uct_md_h md) noexcept
{
    md_table *self = &md_table::of(md);
    auto *close    = self->original.op<md_close_function>(op_close);

    self->user.reset();
    md->ops = self->original.ops();
    delete self;
    close(md);
}

} // namespace

md_table *md_table::find(uct_md_h md)
{
    return (md->ops[op_close] == reinterpret_cast<void *>(&md_close)) ? &of(md)
                                                                      : nullptr;
}

bool install_override(const ucx_instance &of, uct_md_h md, ibv_pd *pd,
                      bool tries_data_direct, make_md_ops make)
{
    at_fork<nullptr, forget_registered>();
    std::unique_ptr<md_table> made(
        new md_table{{}, {of, md, pd, tries_data_direct}, nullptr});

    made->user = make(made->original);
    if (!made->user) {
        return false;
    }
    // The number of operations differs between versions.
    read_table(md->ops, made->ops);
    made->ops[op_close]     = reinterpret_cast<void *>(&md_close);
    made->ops[op_query]     = reinterpret_cast<void *>(&md_query);
    made->ops[op_mem_reg]   = reinterpret_cast<void *>(&md_mem_reg);
    made->ops[op_mem_dereg] = reinterpret_cast<void *>(&md_mem_dereg);
    made->ops[op_mkey_pack] = reinterpret_cast<void *>(&md_mkey_pack);
    md->ops                 = made.release()->ops.data();
    override_transports(of);
    return true;
}

// Allocates and frees nothing under the lock: that may call CUDA, and its hooks
// take the lock.
void note_registered(uintptr_t address) noexcept
try {
    std::set<uintptr_t> added{address};
    any_registered.store(true);
    const std::lock_guard<std::mutex> guard(registered.mutex);
    registered.starts.merge(added);
} catch (const std::bad_alloc &) {
    registers_unseen = true;
}

bool take_registered(uintptr_t address, size_t length) noexcept
{
    if (!any_registered.load()) {
        return registers_unseen;
    }
    std::set<uintptr_t> gone;
    const std::lock_guard<std::mutex> guard(registered.mutex);
    auto &all = registered.starts;
    auto each = all.lower_bound(address);

    while ((each != all.end()) && (*each - address < length)) {
        gone.insert(all.extract(each++));
    }
    return !gone.empty() || registers_unseen;
}

saved_md_ops::saved_md_ops(const ucx_instance &of, uct_md_h md, ibv_pd *pd,
                           bool tries_data_direct)
    : instance_(of), md_(md),
      ops_(md->ops), pd_{pd, &of.verbs(), look_up_mlx5(*pd->context)},
      tries_data_direct_(tries_data_direct)
{
}

ucs_status_t saved_md_ops::query(md_attributes *out) const
{
    union {
        uct_md_attr_v2 begin;
        char whole[4096]; // room for later versions
    } attr;

    memset(&attr, 0, sizeof(attr));
    attr.begin.field_mask = ~uint64_t{0};
    const ucs_status_t status =
        op<md_query_function>(op_query)(md_, &attr.begin);
    *out = {attr.begin.flags, attr.begin.reg_mem_types};
    return status;
}

ucs_status_t saved_md_ops::reg(const reg_request &request,
                               uct_mem_h *memh) const
{
    return op<md_mem_reg_function>(op_mem_reg)(
        md_, request.address, request.length, request.details, memh);
}

ucs_status_t saved_md_ops::dereg(uct_mem_h memh) const
{
    uct_md_mem_dereg_params_t params{};

    params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH;
    params.memh       = memh;
    return op<md_mem_dereg_function>(op_mem_dereg)(md_, &params);
}

// ucs_rcache treats the event as a release, and processes it before its next
// lookup. The memory type cache ignores the event, and still knows the memory.
void saved_md_ops::drop_from_ucp_cache(uintptr_t address, size_t length) const
{
    ucm_event_t event{};

    event.vm_unmapped.address = reinterpret_cast<void *>(address);
    event.vm_unmapped.size    = length;
    instance_.ucm().event_enter();
    instance_.ucm().event_dispatch(UCM_EVENT_VM_UNMAPPED, &event);
    instance_.ucm().event_leave();
}

ucs_status_t saved_md_ops::pack(const pack_request &request, uct_mem_h memh,
                                void *buffer) const
{
    const uct_md_mkey_pack_params_t params{UCT_MD_MKEY_PACK_FIELD_FLAGS,
                                           request.flags};

    return op<md_mkey_pack_function>(op_mkey_pack)(
        md_, memh, request.address, request.length, &params, buffer);
}

} // namespace ucx_ib_dmabuf
