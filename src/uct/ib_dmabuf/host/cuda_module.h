// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_CUDA_MODULE_H_
#define UCX_IB_DMABUF_HOST_CUDA_MODULE_H_

#include <cstddef>

namespace ucx_ib_dmabuf {

class library;

// Whether a copy of UCX is built with CUDA: a component of CUDA's is there, or
// a module of it lies beside libuct_ib, as where the user switched it off.
// `list_at` is where components have their place in the list of all.
bool has_cuda_module(const library &uct_ib, size_t list_at);

} // namespace ucx_ib_dmabuf

#endif
