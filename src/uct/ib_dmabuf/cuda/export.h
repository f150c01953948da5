// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_EXPORT_H_
#define UCX_IB_DMABUF_CUDA_EXPORT_H_

#include "driver.h"
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// A dma-buf of [address, address + length), both multiples of the host's page
// size; the range begins at the dma-buf's first byte. The caller owns the fd,
// which is close-on-exec and may be 0. A failure is logged with its cause.
// UCS_ERR_UNSUPPORTED: this memory, GPU or driver exports none;
// UCS_ERR_NO_MEMORY: no room, BAR1's say. Needs no current context,
// and is allowed while streams capture. Thread-safe.
ucs_status_t cuda_export_dmabuf(const driver &cuda, uintptr_t address,
                                size_t length, int *fd);

} // namespace ucx_ib_dmabuf

#endif
