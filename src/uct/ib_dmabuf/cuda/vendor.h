// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_VENDOR_H_
#define UCX_IB_DMABUF_CUDA_VENDOR_H_

#include "../gpu.h"

namespace ucx_ib_dmabuf {

// NVIDIA's GPUs, if there is a libcuda, a GPU and one that can export its
// memory; reported if only the last is missing. At most one of them may
// watch().
std::unique_ptr<gpu_vendor> find_cuda();

} // namespace ucx_ib_dmabuf

#endif
