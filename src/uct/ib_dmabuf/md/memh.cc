// SPDX-License-Identifier: BSD-3-Clause
#include "memh.h"
#include <cstdlib>
#include <cstring>
#include <new>

namespace ucx_ib_dmabuf {
namespace {

// Where UCX's part begins: behind ours, aligned.
constexpr size_t header_size = (sizeof(memh) + 15) & ~size_t{15};

} // namespace

memh *memh::create(const uct_ib_md_t *md, uint32_t lkey, uint32_t rkey)
{
    // Not calloc(): glibc's is slower for little.
    const size_t size = header_size + md->memh_struct_size;
    void *memory      = malloc(size);
    if (memory == nullptr) {
        return nullptr;
    }
    memset(memory, 0, size);

    memh *handle = new (memory) memh;
    handle->ib_ = reinterpret_cast<uct_ib_mem_t *>(static_cast<char *>(memory) +
                                                   header_size);
    handle->ib_->lkey          = lkey;
    handle->ib_->rkey          = rkey;
    handle->ib_->atomic_rkey   = UCT_IB_INVALID_MKEY;
    handle->ib_->indirect_rkey = UCT_IB_INVALID_MKEY;
    handle->ib_->flags         = mark;
    return handle;
}

void memh::destroy(memh *handle)
{
    handle->~memh();
    free(handle);
}

memh *memh::from_uct(uct_mem_h uct)
{
    return reinterpret_cast<memh *>(static_cast<char *>(uct) - header_size);
}

} // namespace ucx_ib_dmabuf
