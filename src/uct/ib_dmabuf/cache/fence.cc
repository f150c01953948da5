// SPDX-License-Identifier: BSD-3-Clause
#include "fence.h"
#include <cstdlib>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::fence {

[[maybe_unused]] static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static bool decide()
{
#ifdef UCX_IB_DMABUF_TSAN
    return true;
#else
    // For the tests, which have to see both ways work.
    return getenv("UCX_IB_DMABUF_NO_MEMBARRIER") == nullptr &&
           membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
#endif
}

const bool asymmetric = decide();

void heavy()
{
#ifndef UCX_IB_DMABUF_TSAN
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!asymmetric || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return;
    }
    // It cannot fail any more, except where a seccomp filter was put up since.
    // Waiting for every CPU to switch tasks is slow but does the same.
    if (!membarrier(MEMBARRIER_CMD_GLOBAL)) {
        abort();
    }
#endif
}

} // namespace ucx_ib_dmabuf::fence
