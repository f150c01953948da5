// SPDX-License-Identifier: BSD-3-Clause
//
// Streams, and their capture. Nothing is recorded; only the results of other
// calls change during a capture. And a kernel that does not end by itself.
#pragma once

#include <cuda.h>

namespace ucx_ib_dmabuf::sim {

// Whether it is the legacy or the per-thread default stream.
bool is_default(CUstream stream);

// The context of a stream that waits for the legacy one; else null.
CUcontext blocking_context(CUstream stream);

// The device of 'stream'; -1 without a context.
int stream_device(CUstream stream);

bool is_capturing(CUstream stream);

// The result of work for the legacy stream, in any mode of the thread: it would
// have to wait for blocking streams of the context that capture.
CUresult legacy_work(CUcontext context);

// Waits for the kernel in the legacy stream, as every wait for that stream
// does. The caller must hold no lock.
void wait_for_kernel();

// Returns the only graph, which is empty.
CUgraph any_graph();

// In pool.cc: pools release unused memory when a program waits for work.
void synchronized();

} // namespace ucx_ib_dmabuf::sim
