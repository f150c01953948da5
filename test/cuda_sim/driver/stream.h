// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda.h>

namespace ucx_ib_dmabuf::sim {

// Whether the calling thread can use 'stream': it exists, or is a default
// stream of a current context.
CUresult need_stream(CUstream stream);

// Whether it is the legacy or the per-thread default stream.
bool is_default(CUstream stream);

// The context of a stream that waits for the legacy one; else null.
CUcontext blocking_context(CUstream stream);

// The device of 'stream'; -1 without a context.
int stream_device(CUstream stream);

// In pool.cc: pools release unused memory when a program waits for work.
void synchronized();

} // namespace ucx_ib_dmabuf::sim
