// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/copier.h"

namespace ucx_ib_dmabuf {

// What UCX's own CUDA module does, for a UCX that is built without: finds out
// what is CUDA memory, and copies it. Null without libcuda; whether there is a
// GPU is asked later.
memory_copier *find_cuda_copier();

} // namespace ucx_ib_dmabuf
