// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/ib_dmabuf/ucx/ucp.h>

namespace ucx_ib_dmabuf {

// Performs an atomic operation of a UCP message on GPU memory by copies, as the
// CPU cannot access the memory. Operations are atomic to each other in all
// threads of the process, but not to kernels and NICs. Returns false if it is
// no GPU memory, or a copy failed (logged). Thread-safe; called with no lock
// held.
bool do_gpu_atomic(const atomic_request &request, uint64_t *before) noexcept;

} // namespace ucx_ib_dmabuf
