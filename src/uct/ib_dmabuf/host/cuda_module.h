// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf {

class library;

// Whether a copy of UCX has CUDA: a component of CUDA's is there, or a module
// beside libuct_ib that loads, or that the user has switched off.
bool has_cuda_module(const library &uct_ib);

} // namespace ucx_ib_dmabuf
