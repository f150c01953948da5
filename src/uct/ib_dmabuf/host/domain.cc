// SPDX-License-Identifier: BSD-3-Clause
#include "domain.h"
#include "abi.h"
#include "host.h"
#include "library.h"

namespace ucx_ib_dmabuf {
namespace {

using close_function = void(uct_md_h md);
using dereg_function = ucs_status_t(uct_md_h md,
                                    const uct_md_mem_dereg_params_t *params);

ucs_status_t md_mem_dereg(uct_md_h md,
                          const uct_md_mem_dereg_params_t *params) noexcept
{
    decorated &self = decorated::of(md);

    if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) ||
        (params->memh == nullptr) ||
        !handle_keys::are_in(params->memh, self.layout)) {
        return self.original.op<dereg_function>(op_mem_dereg)(md, params);
    }

    uct_completion_t *completion = nullptr;
    if ((params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) &&
        (params->flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE) &&
        (params->field_mask & UCT_MD_MEM_DEREG_FIELD_COMPLETION)) {
        completion = params->comp;
    }
    self.user->dereg(handle_keys::of(params->memh), completion);
    return UCS_OK;
}

void md_close(uct_md_h md) noexcept
{
    decorated *self = &decorated::of(md);
    const original_domain original(self->original);

    self->user.reset();
    md->ops = original.ops();
    delete self;
    original.op<close_function>(op_close)(md);
}

} // namespace

decorated *decorated::find(uct_md_h md)
{
    return (md->ops[op_close] == reinterpret_cast<void *>(&md_close)) ? &of(md)
                                                                      : nullptr;
}

void put_in_place(uct_md_h md, const original_domain &original,
                  std::unique_ptr<domain> user)
{
    auto made = std::make_unique<decorated>(
        decorated{{}, original, original.layout(), std::move(user)});

    // As many as there are; how many that is differs.
    for (size_t i = 0; i < max_ops; ++i) {
        if (!read_memory(&md->ops[i], &made->ops[i])) {
            break;
        }
    }
    original.copy().generation().replace(made->ops);
    made->ops[op_mem_dereg] = reinterpret_cast<void *>(&md_mem_dereg);
    made->ops[op_close]     = reinterpret_cast<void *>(&md_close);
    md->ops                 = made.release()->ops.data();
}

original_domain::original_domain(const host &of, uct_md_h md, ibv_pd *pd,
                                 bool relaxed_order)
    : copy_(of), md_(md),
      ops_(md->ops), pd_{pd, &of.verbs(), look_up_mlx5(*pd->context)},
      relaxed_order_(relaxed_order)
{
}

const keys_layout &original_domain::layout() const
{
    return copy_.generation().layout;
}

ucs_status_t original_domain::query(domain_attributes *out) const
{
    return copy_.generation().query(*this, out);
}

reg_request original_domain::request(void *address, size_t length,
                                     reg_details details) const
{
    return copy_.generation().request(address, length, details);
}

ucs_status_t original_domain::reg(const reg_request &request,
                                  uct_mem_h *memh) const
{
    return copy_.generation().reg(*this, request, memh);
}

ucs_status_t original_domain::dereg(uct_mem_h memh) const
{
    uct_md_mem_dereg_params_t params{};

    params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH;
    params.memh       = memh;
    return op<dereg_function>(op_mem_dereg)(md_, &params);
}

bool original_domain::keeps_handles() const
{
    return copy_.generation().keeps_handles();
}

// ucs_rcache takes it for a release, and works it off before it looks anything
// up. The cache of memory types does not: it still knows what is there.
void original_domain::let_go(uintptr_t address, size_t length) const
{
    ucm_event_t event{};

    event.vm_unmapped.address = reinterpret_cast<void *>(address);
    event.vm_unmapped.size    = length;
    copy_.ucm().event_enter();
    copy_.ucm().event_dispatch(UCM_EVENT_VM_UNMAPPED, &event);
    copy_.ucm().event_leave();
}

bool original_domain::registers_dmabuf() const
{
    return copy_.generation().registers_dmabuf();
}

ucs_status_t original_domain::pack(const pack_request &request, uct_mem_h memh,
                                   void *buffer) const
{
    return copy_.generation().pack(*this, request, memh, buffer);
}

bool original_domain::is_one_operation(const reg_request &request) const
{
    return copy_.generation().is_one_operation(request);
}

} // namespace ucx_ib_dmabuf
