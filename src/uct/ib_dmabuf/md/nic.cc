// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"
#include "../cache/exports.h"
#include "../verbs/dmabuf_mr.h"
#include <algorithm>
#include <bit>
#include <new>
#include <pthread.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

namespace {

// A dma-buf that the caller has.
class given_dmabuf final : public dmabuf_source {
public:
    explicit given_dmabuf(int fd) : fd_(fd) {}

    ucs_status_t get(mapping_type how, int *fd) override
    {
        *fd = fd_;
        return how == mapping_type::standard ? UCS_OK : UCS_ERR_UNSUPPORTED;
    }
    void drop(mapping_type) noexcept override {}

private:
    const int fd_;
};

// UCT_IB_MEM_ACCESS_FLAGS: uct_ib registers for all of it.
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

} // namespace

std::mutex nic::mutex_;

nic::nic(const protection_domain &pd, const keys_layout &layout,
         bool relaxed_order, gpu_vendor &gpu)
    : pd_(pd), layout_(layout),
      access_(all_access | (relaxed_order ? IBV_ACCESS_RELAXED_ORDERING : 0)),
      gpu_(gpu), ladder_(pd), copies_(gpu, pd, all_access)
{
    [[maybe_unused]] static const int once =
        pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); },
                       [] { mutex_.unlock(); });
}

ucs_status_t nic::reg(int fd, uintptr_t address, size_t length, void **handle)
{
    given_dmabuf memory(fd);

    return reg_memory(memory, -1, address, length, handle);
}

ucs_status_t nic::reg_memory(dmabuf_source &memory, int gpu, uintptr_t address,
                             size_t length, void **handle)
{
    ibv_mr *mr = nullptr;
    ucs_status_t status =
        ladder_.reg(memory, gpu, address, length, access_, &mr);
    if (status != UCS_OK) {
        return status;
    }

    try {
        std::lock_guard<std::mutex> guard(mutex_);
        registrations_.insert_or_assign(mr->lkey, registration{mr, getpid()});
    } catch (const std::bad_alloc &) {
        verbs_dereg_mr(*pd_.verbs, mr);
        return UCS_ERR_NO_MEMORY;
    }
    *handle = std::bit_cast<void *>(keys{mr->lkey, mr->rkey});
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
        // Before the device can give the same key to another one.
        std::lock_guard<std::mutex> guard(mutex_);
        ended = registrations_.extract(std::bit_cast<keys>(handle).lkey);
    }
    verbs_dereg_mr(*pd_.verbs, ended.mapped().mr);
    memh *waiting = ended.mapped().invalidated;
    while (waiting != nullptr) {
        memh *told                   = waiting;
        uct_completion_t *completion = told->invalidated;
        waiting                      = told->next;
        delete told;
        invoke_completion(completion);
    }
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
    ucs_status_t status =
        reg_memory(memory, found.device, low, high - low, &result);
    return (status == UCS_OK) ? find(result) : nullptr;
}

void nic::dereg_alone(registration *own)
{
    // In the child of a fork it is the parent's, and stays.
    if (own->process == getpid()) {
        dereg(std::bit_cast<void *>(keys{own->mr->lkey, own->mr->rkey}));
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
