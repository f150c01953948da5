// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "queue_pair.h"
#include <sys/mman.h>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace ucx_ib_dmabuf {

// The access that a proof needs.
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// Host memory that a NIC reaches, for the life of the object. The NIC's own
// verbs register it, as they do for UCX.
class host_pages {
public:
    // `length` in bytes. May fail, see registered().
    host_pages(const protection_domain &pd, size_t length)
        : pd_(pd), length_(length),
          bytes_(mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    {
        if (bytes_ != MAP_FAILED) {
            // In old kernels a fork gives the parent new pages, not the child.
            madvise(bytes_, length, MADV_DONTFORK);
            mr_ = pd.verbs->reg_iova(pd.verbs_pd, bytes_, length, address(),
                                     all_access);
        }
    }
    ~host_pages()
    {
        if (mr_ != nullptr) {
            pd_.verbs->dereg(mr_);
        }
        if (bytes_ != MAP_FAILED) {
            munmap(bytes_, length_);
        }
    }
    host_pages(const host_pages &)            = delete;
    host_pages &operator=(const host_pages &) = delete;

    bool registered() const { return mr_ != nullptr; }
    place at() const { return {address(), mr_->lkey, mr_->rkey}; }

private:
    uintptr_t address() const { return reinterpret_cast<uintptr_t>(bytes_); }

    const protection_domain &pd_;
    const size_t length_;
    void *const bytes_;
    ibv_mr *mr_ = nullptr;
};

} // namespace ucx_ib_dmabuf
