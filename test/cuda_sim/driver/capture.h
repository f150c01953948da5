// SPDX-License-Identifier: BSD-3-Clause
//
// Stream capture: nothing is recorded; what is there is what other calls get
// while it goes on. And a kernel that does not end by itself.
#pragma once

#include <cuda.h>

namespace ucx_ib_dmabuf::sim {

bool is_capturing(CUstream stream);

// The only graph there is, an empty one.
CUgraph any_graph();

// A stream is destroyed: its capture is over.
void forget_capture(CUstream stream);

// What work for the legacy stream gets, whatever the thread's mode: it would
// have to wait for blocking streams of the context that capture.
CUresult legacy_work(CUcontext context);

// Wait for the kernel in the legacy stream, as everything does that waits for
// that stream. Wants no lock held.
void wait_for_kernel();

} // namespace ucx_ib_dmabuf::sim
