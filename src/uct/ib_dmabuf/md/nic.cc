// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"
#include "../cache/exports.h"
#include "../fork_mutex.h"
#include "../verbs/dmabuf_mr.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <unistd.h>

namespace ucx_ib_dmabuf {

namespace {

// UCT_IB_MEM_ACCESS_FLAGS: uct_ib registers for all of it.
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// By uct_ib, for all that anybody may want of it, as others will share it.
class uct_ib_registration final : public dmabuf_registration {
public:
    uct_ib_registration(const original_domain &domain, ucs_memory_type_t type)
        : domain_(domain), type_(type)
    {
    }
    void *reg(ladder_step, int fd, uintptr_t address, size_t length) override
    {
        reg_request request{reinterpret_cast<void *>(address), length,
                            UCT_MD_MEM_ACCESS_RMA |
                                UCT_MD_MEM_ACCESS_REMOTE_ATOMIC |
                                UCT_MD_MEM_FLAG_HIDE_ERRORS};
        uct_mem_h made      = nullptr;
        request.fd          = fd;
        request.memory_type = type_;

        if (domain_.reg(request, &made) == UCS_OK) {
            return made;
        }
        errno = (errno == 0) ? EINVAL : errno; // no verb was called
        return nullptr;
    }
    void dereg(void *handle) override { domain_.dereg(handle); }

private:
    const original_domain &domain_;
    const ucs_memory_type_t type_;
};

// uct_ib's registrations do not begin with Data Direct: where that does not
// take a dma-buf uct_ib goes on with the same one, which the NVIDIA drivers 570
// and 575 may have left locked, and which may be registered and not work.
protection_domain pd_for_ladder(const protection_domain &pd, bool by_uct_ib)
{
    return by_uct_ib ? protection_domain{pd.verbs_pd, pd.verbs, {}} : pd;
}

// The first paths are the ladder's steps.
static_assert(static_cast<size_t>(ladder_step::pcie) + 1 == ladder_steps);

} // namespace

nic::nic(const protection_domain &pd, const keys_layout &layout,
         bool relaxed_order, gpu_vendor &gpu, const original_domain *by_uct_ib,
         proofs *proven)
    : pd_(pd), layout_(layout),
      access_(all_access | (relaxed_order ? IBV_ACCESS_RELAXED_ORDERING : 0)),
      by_uct_ib_(by_uct_ib), gpu_(gpu), proven_(proven),
      ladder_(pd_for_ladder(pd, by_uct_ib != nullptr),
              (proven != nullptr) ? this : nullptr),
      copies_(gpu, pd, all_access)
{
    keep_from_forks<mutex_>();
}

ucs_status_t nic::reg_by_us(dmabuf_source &memory, int gpu, uintptr_t address,
                            size_t length, registration *made)
{
    const ucs_status_t status = ladder_.reg(memory, gpu, address, length,
                                            access_, &made->mr, &made->step);

    if (status == UCS_OK) {
        made->lkey = made->mr->lkey;
        made->rkey = made->mr->rkey;
    }
    return status;
}

ucs_status_t nic::reg_by_uct_ib(dmabuf_source &memory, int gpu,
                                uintptr_t address, size_t length,
                                registration *made)
{
    uct_ib_registration by(*by_uct_ib_, gpu_.memory_type());
    const ucs_status_t status = ladder_.reg(memory, gpu, address, length, by,
                                            &made->original, &made->step);

    if (status == UCS_OK) {
        const handle_keys &theirs = *handle_keys::of(made->original);
        made->lkey                = theirs.lkey();
        made->rkey                = theirs.rkey(layout_);
    }
    return status;
}

void nic::end(const registration &ended)
{
    if (ended.mr != nullptr) {
        verbs_dereg_mr(*pd_.verbs, ended.mr);
    } else {
        by_uct_ib_->dereg(ended.original);
    }
}

ucs_status_t nic::reg(dmabuf_source &memory, int gpu, uintptr_t address,
                      size_t length, void **handle)
{
    pair_row &pair = process_pairs.of(name(), gpu);
    registration made{};
    const ucs_status_t status =
        (by_uct_ib_ != nullptr)
            ? reg_by_uct_ib(memory, gpu, address, length, &made)
            : reg_by_us(memory, gpu, address, length, &made);
    if (status != UCS_OK) {
        ++pair[pair_metric::failures];
        return status;
    }

    made.process = getpid();
    made.pair    = &pair;
    made.length  = length;
    try {
        std::lock_guard<std::mutex> guard(mutex_);
        registrations_.insert_or_assign(made.lkey, made);
    } catch (const std::bad_alloc &) {
        end(made);
        ++pair[pair_metric::failures];
        return UCS_ERR_NO_MEMORY;
    }
    pair.add_region(static_cast<memory_path>(made.step), length);
    *handle = std::bit_cast<void *>(keys{made.lkey, made.rkey});
    return UCS_OK;
}

registration *nic::find(void *handle)
{
    std::lock_guard<std::mutex> guard(mutex_);
    return &registrations_.find(std::bit_cast<keys>(handle).lkey)->second;
}

void nic::dereg(void *handle)
{
    decltype(registrations_)::node_type ended;
    {
        // Whoever packs a key of it has looked whether it is revoked.
        const std::lock_guard<std::mutex> wait(packing_);
    }
    {
        // Before the device can give the same key to another one.
        std::lock_guard<std::mutex> guard(mutex_);
        ended = registrations_.extract(std::bit_cast<keys>(handle).lkey);
    }
    end(ended.mapped());
    ended.mapped().pair->end_region(ended.mapped().length);
    memh *waiting = ended.mapped().invalidated;
    while (waiting != nullptr) {
        memh *told                   = waiting;
        uct_completion_t *completion = told->invalidated;
        waiting                      = told->next;
        delete told;
        invoke_completion(completion);
    }
}

void nic::count_end(int gpu, ending why) noexcept
{
    ++process_pairs.of(
        name(), gpu)[(why == ending::evicted) ? pair_metric::evictions
                                              : pair_metric::invalidations];
}

registration *nic::reg_alone(const memh &handle)
{
    const uintptr_t mask = gpu_.granularity() - 1;
    const region &around = *handle.used;
    const uintptr_t low  = std::max(handle.address & ~mask, around.address);
    const uintptr_t high =
        std::min((handle.address + handle.length + mask) & ~mask,
                 around.address + around.length);
    void *result = nullptr;
    extent found;

    if (gpu_.describe(handle.address, &found) != UCS_OK) {
        return nullptr;
    }
    exports memory(gpu_, low, high - low);
    ucs_status_t status = reg(memory, found.device, low, high - low, &result);
    return (status == UCS_OK) ? find(result) : nullptr;
}

void nic::dereg_alone(registration *own)
{
    // In the child of a fork it is the parent's, and stays.
    if (own->process == getpid()) {
        dereg(std::bit_cast<void *>(keys{own->lkey, own->rkey}));
    }
}

memh *nic::stage(uintptr_t address, size_t length)
{
    auto buffer = copies_.start(address, length);
    if (!buffer) {
        return nullptr;
    }
    memh *created = new (std::nothrow)
        memh(layout_, buffer->mr()->lkey, buffer->mr()->rkey);
    if (created != nullptr) {
        created->staged = std::move(buffer);
    }
    return created;
}

void nic::unstage(memh *handle)
{
    copies_.finish(std::move(handle->staged));
    delete handle;
}

void nic::notify_invalidated(memh *handle, uct_completion_t *completion)
{
    registration *shared = find(handle->used->handle);
    std::lock_guard<std::mutex> guard(mutex_);

    handle->invalidated = completion;
    handle->next        = shared->invalidated;
    shared->invalidated = handle;
}

} // namespace ucx_ib_dmabuf
