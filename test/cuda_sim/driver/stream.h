// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda.h>

namespace ucx_ib_dmabuf::sim {

// Whether 'stream' can be used by the calling thread: one that exists, or a
// default stream of a current context.
CUresult need_stream(CUstream stream);

// The legacy or the per-thread default stream.
bool is_default(CUstream stream);

// The context of a stream that waits for the legacy one; null of others.
CUcontext blocking_context(CUstream stream);

// The device that 'stream' belongs to; -1 without a context.
int stream_device(CUstream stream);

// In pool.cc: pools give unused memory back where a program waits for work.
void synchronized();

} // namespace ucx_ib_dmabuf::sim
