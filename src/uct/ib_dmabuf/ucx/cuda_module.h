// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf {

class library;

// Whether a UCX instance has CUDA: a registered component, a module beside
// libuct_ib that loads, or one that UCX_MODULES may exclude.
bool has_cuda_module(const library &uct_ib);

} // namespace ucx_ib_dmabuf
