// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/copier.h"

namespace ucx_ib_dmabuf {

// Detects and copies CUDA memory for a UCX that is built without its CUDA
// module. Returns nullptr without libcuda; whether a GPU exists is queried
// later.
memory_copier *find_cuda_copier();

} // namespace ucx_ib_dmabuf
