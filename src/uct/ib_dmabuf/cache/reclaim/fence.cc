// SPDX-License-Identifier: BSD-3-Clause
#include "fence.h"
#include <cstdlib>
#include <linux/membarrier.h>

namespace ucx_ib_dmabuf::fence {

static bool decide()
{
#ifdef UCX_IB_DMABUF_TSAN
    return true;
#else
    // For the tests, which have to see both ways work.
    return getenv("UCX_IB_DMABUF_NO_MEMBARRIER") == nullptr &&
           steps::membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
#endif
}

steps::constant<bool> asymmetric = decide();

void heavy()
{
#ifndef UCX_IB_DMABUF_TSAN
    steps::full_fence();
    if (!asymmetric || steps::membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return;
    }
    // It cannot fail any more, except where a seccomp filter was put up since.
    // Waiting for every CPU to switch tasks is slow but does the same.
    if (!steps::membarrier(MEMBARRIER_CMD_GLOBAL)) {
        abort();
    }
#endif
}

} // namespace ucx_ib_dmabuf::fence
