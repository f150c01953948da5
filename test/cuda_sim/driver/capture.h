// SPDX-License-Identifier: BSD-3-Clause
//
// Stream capture. Nothing is recorded; only the results of other calls change
// during a capture. And a kernel that does not end by itself.
#pragma once

#include <cuda.h>

namespace ucx_ib_dmabuf::sim {

bool is_capturing(CUstream stream);

// Returns the only graph, which is empty.
CUgraph any_graph();

// Ends the capture of a stream that is destroyed.
void forget_capture(CUstream stream);

// The result of work for the legacy stream, in any mode of the thread: it would
// have to wait for blocking streams of the context that capture.
CUresult legacy_work(CUcontext context);

// Waits for the kernel in the legacy stream, as every wait for that stream
// does. The caller must hold no lock.
void wait_for_kernel();

} // namespace ucx_ib_dmabuf::sim
