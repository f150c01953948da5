// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"
#include "../verbs/dmabuf_mr.h"

namespace ucx_ib_dmabuf {

nic::nic(uct_ib_md_t *md) : md_(md)
{
    // As uct_ib does where it registers GPU memory: no scatter-gather lists of
    // it (uct_ib_md_open_common).
    md->dev.max_zcopy_log_sge = 1;
}

int nic::access() const
{
    int flags = UCT_IB_MEM_ACCESS_FLAGS;

    if (md_->relaxed_order) {
        flags |= IBV_ACCESS_RELAXED_ORDERING;
    }
    return flags;
}

ucs_status_t nic::reg(int fd, size_t offset, uintptr_t address, size_t length,
                      void **handle)
{
    ibv_mr *mr          = nullptr;
    ucs_status_t status = verbs_reg_dmabuf_mr(md_->pd, fd, offset, address,
                                              length, access(), &mr);
    if (status != UCS_OK) {
        return status;
    }

    memh *created = memh::create(md_, mr->lkey, mr->rkey);
    if (created == nullptr) {
        verbs_dereg_mr(mr);
        return UCS_ERR_NO_MEMORY;
    }
    created->mr = mr;
    *handle     = created;
    return UCS_OK;
}

void nic::dereg(void *handle)
{
    auto *ended = static_cast<memh *>(handle);
    std::vector<uct_completion_t *> waiting;

    verbs_dereg_mr(ended->mr);
    {
        std::lock_guard<std::mutex> guard(mutex_);
        waiting.swap(ended->invalidated);
    }
    for (uct_completion_t *completion : waiting) {
        uct_invoke_completion(completion, UCS_OK);
    }
    memh::destroy(ended);
}

memh *nic::stage(const driver &cuda, uintptr_t address, size_t length)
{
    auto buffer = staging_buffer::create(cuda, md_->pd, address, length,
                                         UCT_IB_MEM_ACCESS_FLAGS);
    if (!buffer) {
        return nullptr;
    }
    memh *created = memh::create(md_, buffer->mr()->lkey, buffer->mr()->rkey);
    if (created != nullptr) {
        created->staged = std::move(buffer);
    }
    return created;
}

void nic::notify_invalidated(memh *handle, uct_completion_t *completion)
{
    std::lock_guard<std::mutex> guard(mutex_);
    handle->invalidated.push_back(completion);
}

} // namespace ucx_ib_dmabuf
