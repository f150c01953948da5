// SPDX-License-Identifier: BSD-3-Clause
//
// UCX 1.13: a registration gets no memory type, and has no other way back than
// its status; handles begin with uct_ib_mem_t.
#include "../cache/memory_run.h"
#include "../report.h"
#include "../verbs/dmabuf_mr.h"
#include "caller.h"
#include "decorate.h"
#include "nic.h"
#include "plugin.h"
#include "ucx_1_13.h"
#include <algorithm>
#include <new>
#include <ucs/datastruct/pgtable.h>
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

uct_component_md_open_func_t original_md_open;

// A memory domain of uct_ib's with our operations in place of its own.
struct decorated {
    uct_md_ops_t ops; // first: the domain points to it
    const uct_md_ops_t *original;
    plugin *shared;
    nic device;
    cache::nic_id id;
    bool peer_memory; // uct_ib itself can register GPU memory

    static decorated &of(uct_md_h md)
    {
        return *reinterpret_cast<decorated *>(md->ops);
    }
};

ucs_status_t md_query(uct_md_h md, uct_md_attr_t *attr) noexcept
{
    ucs_status_t status = decorated::of(md).original->query(md, attr);

    if (status == UCS_OK) {
        attr->cap.reg_mem_types |=
            UCS_BIT(decorated::of(md).shared->gpu().memory_type());
    }
    return status;
}

// UCP registers whole allocations, and takes their ends from a cache of memory
// types that rounds them up to UCS_PGT_ADDR_ALIGN. Without that many bytes but
// one the range ends in the same block, but not behind the allocation.
size_t without_rounding(const void *address, size_t length)
{
    const uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;

    return ((end % UCS_PGT_ADDR_ALIGN) == 0 && length >= UCS_PGT_ADDR_ALIGN)
               ? length - (UCS_PGT_ADDR_ALIGN - 1)
               : length;
}

// uct_ib's registration of what is not the GPU's. Idle host copies give way to
// it: without the plug-in there would be none.
ucs_status_t reg_host(uct_md_h md, void *address, size_t length, unsigned flags,
                      uct_mem_h *memh_p)
{
    decorated &self = decorated::of(md);
    const auto reg  = self.original->mem_reg;

    ucs_trace("ib_dmabuf: %s: %zu bytes at %p are no device memory: passed on",
              self.device.name(), length, address);
    if (staging_pool::any_idle()) {
        if (reg(md, address, length, flags | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                memh_p) == UCS_OK) {
            return UCS_OK;
        }
        staging_pool::drop_all_idle();
    }
    return reg(md, address, length, flags, memh_p);
}

// A device registration failed, and was reported. UCP has another way if it
// asked to hide errors; else the message would fail.
ucs_status_t reg_otherwise(uct_md_h md, void *address, size_t length,
                           unsigned flags, ucs_status_t failure,
                           uct_mem_h *memh_p)
{
    decorated &self = decorated::of(md);
    const char *why = ucs_status_string(failure);

    if (self.peer_memory) {
        ucs_debug("ib_dmabuf: %s: %zu bytes at %p are left to peer memory: %s",
                  self.device.name(), length, address, why);
        return self.original->mem_reg(md, address, length, flags, memh_p);
    }
    if (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) {
        ucs_debug("ib_dmabuf: %s: %zu bytes at %p are left to UCP: %s",
                  self.device.name(), length, address, why);
        return failure;
    }
    if (!is_one_operation(flags)) {
        warn_once("lasting",
                  "GPU memory that UCX registers for longer than an operation "
                  "cannot be staged: what needs it fails. UCX does so with "
                  "UCX_PROTO_ENABLE=y and UCX_RNDV_FRAG_MEM_TYPE=cuda, and for "
                  "ucp_mem_map()");
        return failure;
    }

    memh *staged =
        self.device.stage(reinterpret_cast<uintptr_t>(address), length);
    if (staged == nullptr) {
        return failure;
    }
    self.shared->count_staged(length);
    ucs_debug("ib_dmabuf: %s: staging %zu bytes at %p: %s", self.device.name(),
              length, address, why);
    *memh_p = staged->to_uct();
    return UCS_OK;
}

// `used`: the cache's region, acquired; or null, if it has none yet.
ucs_status_t reg_device(decorated &self, const region *used, uintptr_t address,
                        size_t length, uct_mem_h *memh_p)
{
    cache &regions      = self.shared->registrations();
    ucs_status_t status = UCS_OK;

    if ((used == nullptr) &&
        ((status = regions.get(self.id, address, length, &used)) != UCS_OK)) {
        return status;
    }
    memh *handle = self.device.hand_out(used, address, length);
    if (handle == nullptr) {
        regions.put(used);
        return UCS_ERR_NO_MEMORY;
    }
    *memh_p = handle->to_uct();
    return UCS_OK;
}

// No registration by us. What is not known to be a GPU's memory is uct_ib's:
// the host's, of which CUDA may know some part, managed memory, what was
// released; in a forked process all.
ucs_status_t reg_failed(uct_md_h md, void *address, size_t length,
                        unsigned flags, ucs_status_t failure, uct_mem_h *memh_p)
{
    const auto start   = reinterpret_cast<uintptr_t>(address);
    const size_t exact = without_rounding(address, length);
    memory_run found;

    ucs_status_t status = failure;
    if (status != UCS_ERR_NO_ELEM) {
        status = found.describe(decorated::of(md).shared->gpu(),
                                make_span(start, exact));
    }
    switch (status) {
    case UCS_ERR_NO_ELEM:
        return reg_host(md, address, length, flags, memh_p);
    case UCS_ERR_INVALID_PARAM:
        ucs_log((flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) ? UCS_LOG_LEVEL_DEBUG
                                                      : UCS_LOG_LEVEL_ERROR,
                "ib_dmabuf: the %zu bytes at %p begin in an allocation of GPU "
                "memory and go beyond its end: register only what is in one "
                "allocation",
                exact, address);
        return status;
    case UCS_OK: // UCP may have rounded the end up, see without_rounding().
        length = std::min(length, found.range.hi - start);
        break;
    default: // GPU memory of which the driver does not tell more
        break;
    }
    return reg_otherwise(md, address, length, flags, failure, memh_p);
}

// Not a hit.
ucs_status_t mem_reg_new(uct_md_h md, void *address, size_t length,
                         unsigned flags, uct_mem_h *memh_p)
{
    decorated &self    = decorated::of(md);
    const auto start   = reinterpret_cast<uintptr_t>(address);
    const size_t exact = without_rounding(address, length);

    if (self.shared->gpu().may_be_device(start, length)) {
        const auto status = reg_device(self, nullptr, start, exact, memh_p);
        return (status == UCS_OK)
                   ? UCS_OK
                   : reg_failed(md, address, length, flags, status, memh_p);
    }
    const auto status = reg_host(md, address, length, flags, memh_p);
    // GPU memory of which UCX saw no allocation, after all?
    return ((status != UCS_OK) &&
            (reg_device(self, nullptr, start, exact, memh_p) == UCS_OK))
               ? UCS_OK
               : status;
}

// The cache is asked first: what it has is GPU memory, and a hit stores to
// nothing that other threads read, as UCX's cache of memory types would.
ucs_status_t md_mem_reg(uct_md_h md, void *address, size_t length,
                        unsigned flags, uct_mem_h *memh_p) noexcept
{
    decorated &self    = decorated::of(md);
    const auto start   = reinterpret_cast<uintptr_t>(address);
    const size_t exact = without_rounding(address, length);

    self.shared->gpu().refresh_events();
    const region *hit =
        self.shared->registrations().find(self.id, start, exact);
    return (hit != nullptr) ? reg_device(self, hit, start, exact, memh_p)
                            : mem_reg_new(md, address, length, flags, memh_p);
}

// The completion is told at once, unless the handle's remote key is the
// region's: that one dies with the region's last user.
void release(decorated &self, memh *handle, uct_completion_t *completion)
{
    cache &regions     = self.shared->registrations();
    const region *used = handle->used;
    registration *own  = handle->own;

    if (own != nullptr) {
        self.device.dereg_alone(own);
    }
    if (handle->staged) {
        if (completion != nullptr) {
            handle->staged->invalidate();
        }
        self.device.unstage(handle);
    } else if ((completion != nullptr) && handle->shares_key) {
        self.device.notify_invalidated(handle, completion);
        regions.invalidate(used->address, used->length);
        regions.put(used);
        return;
    } else {
        delete handle;
        regions.put(used);
    }
    if (completion != nullptr) {
        uct_invoke_completion(completion, UCS_OK);
    }
}

ucs_status_t md_mem_dereg(uct_md_h md,
                          const uct_md_mem_dereg_params_t *params) noexcept
{
    decorated &self = decorated::of(md);

    if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) ||
        (params->memh == nullptr) || !memh::is_ours(params->memh)) {
        return self.original->mem_dereg(md, params);
    }

    uct_completion_t *completion = nullptr;
    if ((params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) &&
        (params->flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE) &&
        (params->field_mask & UCT_MD_MEM_DEREG_FIELD_COMPLETION)) {
        completion = params->comp;
    }

    release(self, memh::from_uct(params->memh), completion);
    return UCS_OK;
}

// The remote key for a user that may invalidate it: the region's would stay
// valid for as long as others use the region, so it gets one of its own. Where
// that fails it is the region's all the same, as UCP ends the process if there
// is none (ucp_rndv_rts_pack).
uint32_t key_of_its_own(decorated &self, memh *handle)
{
    registration *own = handle->own;

    if (own == nullptr) {
        registration *made = self.device.reg_alone(*handle);
        if (made == nullptr) {
            ucs_debug("ib_dmabuf: %s: %zu bytes at 0x%zx have no key of their "
                      "own: an invalidation waits for the others' users",
                      self.device.name(), handle->length, handle->address);
            handle->shares_key = true;
            return handle->remote_key();
        }
        if (handle->own.compare_exchange_strong(own, made)) {
            ucs_trace("ib_dmabuf: %s: %zu bytes at 0x%zx have a key of their "
                      "own, 0x%x, to be invalidated",
                      self.device.name(), handle->length, handle->address,
                      made->mr->rkey);
            own = made;
        } else { // another thread was faster
            self.device.dereg_alone(made);
        }
    }
    return own->mr->rkey;
}

ucs_status_t md_mkey_pack(uct_md_h md, uct_mem_h uct_memh,
                          const uct_md_mkey_pack_params_t *params,
                          void *rkey_buffer) noexcept
{
    decorated &self = decorated::of(md);

    if (uct_memh == nullptr) {
        return UCS_ERR_INVALID_PARAM; // as UCT, where it checks parameters
    }
    if (!memh::is_ours(uct_memh)) {
        return self.original->mkey_pack(md, uct_memh, params, rkey_buffer);
    }

    memh *handle  = memh::from_uct(uct_memh);
    uint32_t rkey = handle->remote_key();
    if (handle->staged) {
        // Only this operation's in any case.
    } else if ((params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) &&
               (params->flags & UCT_MD_MKEY_PACK_FLAG_INVALIDATE)) {
        rkey = key_of_its_own(self, handle);
    } else {
        handle->shares_key = true;
    }
    // Atomics use the same key.
    uct_ib_md_pack_rkey(rkey, UCT_IB_INVALID_MKEY, rkey_buffer);
    return UCS_OK;
}

void md_close(uct_md_h md) noexcept
{
    decorated *self              = &decorated::of(md);
    const uct_md_ops_t *original = self->original;

    self->shared->registrations().detach(self->id);
    md->ops = const_cast<uct_md_ops_t *>(original);
    delete self;
    original->close(md);
}

void decorate(uct_ib_md_t *md)
{
    text why;
    plugin *shared = plugin::get();

    if (shared == nullptr) {
        return;
    }
    const verbs_functions verbs = find_verbs_functions();
    if (!verbs_can_register_dmabuf({md->pd, &verbs}, &why)) {
        warn_once(format("no dma-bufs: %s", why.c_str()),
                  format("%s. Messages in GPU memory that use it are staged "
                         "through host memory",
                         why.c_str()));
        return;
    }

    const bool peer_memory =
        (md->reg_mem_types & UCS_BIT(shared->gpu().memory_type())) != 0;
    auto *self = new (std::nothrow) decorated{
        *md->super.ops,  md->super.ops, shared, nic(md, shared->gpu(), verbs),
        cache::nic_id(), peer_memory};
    if (self == nullptr) {
        warn_no_memory();
        return;
    }
    self->id            = shared->registrations().attach(self->device);
    self->ops.query     = md_query;
    self->ops.mem_reg   = md_mem_reg;
    self->ops.mem_dereg = md_mem_dereg;
    self->ops.mkey_pack = md_mkey_pack;
    self->ops.close     = md_close;
    md->super.ops       = &self->ops;
    ucs_debug("ib_dmabuf: %s takes %s memory", self->device.name(),
              shared->gpu().name());
}

ucs_status_t md_open(uct_component_t *component, const char *name,
                     const uct_md_config_t *config, uct_md_h *md_p) noexcept
{
    ucs_status_t status = original_md_open(component, name, config, md_p);

    if (status == UCS_OK) {
        decorate(ucs_derived_of(*md_p, uct_ib_md_t));
    }
    return status;
}

} // namespace

void decorate_uct_ib()
{
    original_md_open         = uct_ib_component.md_open;
    uct_ib_component.md_open = md_open;
}

} // namespace ucx_ib_dmabuf
