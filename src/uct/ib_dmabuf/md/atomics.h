// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/ucp.h"

namespace ucx_ib_dmabuf {

// Atomic operations of UCP's messages on GPU memory, which the CPU cannot
// touch: by copies. They are atomic among each other, in all threads of the
// process; not with what kernels and NICs do there, as UCP's on host memory are
// not with NICs. False: it is no GPU memory, or a copy failed, which was
// logged. Thread-safe; called with no lock held.
bool do_gpu_atomic(const atomic_request &request, uint64_t *before) noexcept;

} // namespace ucx_ib_dmabuf
