// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ops.h"

// Detection and copies of CUDA memory for a UCX that is built without its CUDA
// module.
namespace ucx_ib_dmabuf {

class library;
class ucx_instance;

// Whether a UCX instance has CUDA: a registered component, a module beside
// libuct_ib that loads, or one that UCX_MODULES may exclude.
bool has_cuda_module(const library &uct_ib);

// Returns nullptr without libcuda, which may be loaded later. Whether a GPU
// exists is queried later.
cuda_copy_ops *find_cuda_copy_ops();

// Registers a cuda_copy component with a UCX without CUDA as soon as libcuda
// can be opened. Does nothing the next time. Thread-safe.
void offer_cuda_copy(ucx_instance &to);

} // namespace ucx_ib_dmabuf
