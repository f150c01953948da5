// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_BAR1_H_
#define UCX_IB_DMABUF_CUDA_BAR1_H_

#include "driver.h"

namespace ucx_ib_dmabuf {

// Bytes, as NVML tells them (nvmlBAR1Memory_t; its ABI is fixed).
struct bar1_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

// What NICs reach a GPU through. False where NVML does not tell. Thread-safe;
// calls the dynamic loader.
bool read_bar1(const char *bus_id, bar1_memory *memory);

// Whether the GPU has a coherent link to the host: such ones do not need BAR1,
// but for Data Direct.
bool is_coherent(const driver &cuda, CUdevice device);

} // namespace ucx_ib_dmabuf

#endif
