// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_COPY_H_
#define UCX_IB_DMABUF_CUDA_COPY_H_

#include "driver.h"

namespace ucx_ib_dmabuf {

// Copies between memory of any kind, of any GPUs and of the host, and returns
// when the bytes are there; in a stream of our own, which waits for no kernel.
// No context need be current. `gpu` is one of the two addresses: the one that
// is more likely a GPU's. What CUDA does not know, both of them, is the host's.
// A failure is logged. Thread-safe.
ucs_status_t copy_memory(const driver &cuda, void *to, const void *from,
                         size_t length, const void *gpu);

} // namespace ucx_ib_dmabuf

#endif
