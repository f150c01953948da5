// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/ib_dmabuf/ucx/cuda_copy_ops.h>

namespace ucx_ib_dmabuf {

// Detects and copies CUDA memory for a UCX that is built without its CUDA
// module. Returns nullptr without libcuda; whether a GPU exists is queried
// later.
cuda_copy_ops *find_cuda_copier();

} // namespace ucx_ib_dmabuf
