// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_PROVE_PACE_H_
#define UCX_IB_DMABUF_PROVE_PACE_H_

#include "../gpu.h"
#include "wire.h"
#include <chrono>

namespace ucx_ib_dmabuf {

// How long some bytes take one way, and how long by a copy in host memory.
struct pace {
    const char *way;
    uint32_t length; // bytes
    std::chrono::nanoseconds direct, staged;
};

// A way between the NIC and the GPU that takes more than twice as long as a
// copy in host memory does, each at its best; nothing if there is none, or if
// it cannot be measured. `host` is of proof_host_size; overwrites both.
std::optional<pace> slower_than_staging(wire &nic, gpu_vendor &gpus,
                                        const place &gpu, const place &host);

} // namespace ucx_ib_dmabuf

#endif
