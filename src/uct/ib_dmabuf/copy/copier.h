// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_COPY_COPIER_H_
#define UCX_IB_DMABUF_COPY_COPIER_H_

#include "../host/copier.h"

namespace ucx_ib_dmabuf {

// What UCX's own CUDA module does, for a UCX that is built without: finds out
// what is CUDA memory, and copies it. Null without libcuda; whether there is a
// GPU is asked later.
memory_copier *find_cuda_copier();

} // namespace ucx_ib_dmabuf

#endif
