// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_BAR1_H_
#define UCX_IB_DMABUF_CUDA_BAR1_H_

#include "driver.h"
#include <cstddef>

namespace ucx_ib_dmabuf {

// How many bytes of a GPU may be registered at a time: 90 % of its BAR1,
// through which NICs reach it, as NVML tells; SIZE_MAX where BAR1 is no limit
// (it is as large as the GPU's memory, the GPU is coherent) or is not known.
// Thread-safe.
size_t cuda_bar1_budget(const driver &cuda, int device);

} // namespace ucx_ib_dmabuf

#endif
