// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf {

class library;

// Whether a copy of UCX is built with CUDA: a component of CUDA's is there, or
// a module of it lies beside libuct_ib, as where the user switched it off.
bool has_cuda_module(const library &uct_ib);

} // namespace ucx_ib_dmabuf
