// SPDX-License-Identifier: BSD-3-Clause
#include "host_pages.h"
#include <sys/mman.h>

namespace ucx_ib_dmabuf {

host_pages::host_pages(const protection_domain &pd, int access, size_t length)
    : pd_(pd), length_(length),
      bytes_(mmap(nullptr, length, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
{
    if (bytes_ != MAP_FAILED) {
        // Old kernels give a forking parent, not its child, new pages.
        madvise(bytes_, length, MADV_DONTFORK);
        mr_ = pd.verbs->reg_iova(pd.verbs_pd, bytes_, length,
                                 reinterpret_cast<uintptr_t>(bytes_), access);
    }
}

host_pages::~host_pages()
{
    if (mr_ != nullptr) {
        pd_.verbs->dereg(mr_);
    }
    if (bytes_ != MAP_FAILED) {
        munmap(bytes_, length_);
    }
}

place host_pages::at() const
{
    return {reinterpret_cast<uintptr_t>(bytes_), mr_->lkey, mr_->rkey};
}

} // namespace ucx_ib_dmabuf
