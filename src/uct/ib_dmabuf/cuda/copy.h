// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_COPY_H_
#define UCX_IB_DMABUF_CUDA_COPY_H_

#include "driver.h"
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// Copies in the context that owns the GPU memory (see scoped_context), in a
// stream of our own: they wait for no kernel, also not for one that writes the
// memory, which the program must have waited for before it sends. Return when
// the bytes are there. Allowed while streams capture. Failures are logged.
ucs_status_t cuda_copy_to_host(const driver &cuda, void *host, uintptr_t device,
                               size_t length);
ucs_status_t cuda_copy_from_host(const driver &cuda, uintptr_t device,
                                 const void *host, size_t length);

} // namespace ucx_ib_dmabuf

#endif
