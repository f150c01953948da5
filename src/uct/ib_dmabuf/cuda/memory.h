// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_MEMORY_H_
#define UCX_IB_DMABUF_CUDA_MEMORY_H_

#include "driver.h"
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// What CUDA says of an address. None of these functions needs a current
// context, all are allowed while streams capture, and all are thread-safe.
struct cuda_memory {
    enum class kind {
        device,  // memory of one GPU
        managed, // moves between GPU and host
        host     // pinned host memory, registered or allocated by CUDA
    };

    // Of device memory; of other kinds as the driver says, perhaps 0.
    uintptr_t base;    // of the allocation, or of the first VMM segment
    size_t size;       // bytes, up to the end of the allocation or of the last
                       // segment that the range touches
    uint64_t identity; // CU_POINTER_ATTRIBUTE_BUFFER_ID, which no two
                       // allocations of a process share; of several segments,
                       // a hash of theirs
    int device;        // CUDA ordinal
    kind type;
    bool rdma_capable; // the allocation was not made without GPUDirect RDMA
};

// UCS_ERR_NO_ELEM: the address is not CUDA memory. Of device memory,
// UCS_ERR_INVALID_PARAM: the range is empty, or goes over into something else
// than further VMM segments of the same GPU; UCS_ERR_UNSUPPORTED: the driver
// does not tell where it begins and ends (reported). Of other memory, what is
// at the first byte.
ucs_status_t cuda_describe(const driver &cuda, uintptr_t address, size_t length,
                           cuda_memory *out);

// Whether the range, as cuda_describe() gave it or a part of one allocation,
// still has this identity. One driver call for ordinary allocations.
bool cuda_is_current(const driver &cuda, uintptr_t address, size_t length,
                     uint64_t identity);

// Whether any GPU can export its memory
// (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED). If not, `why` tells.
bool cuda_can_export(const driver &cuda, text *why);

} // namespace ucx_ib_dmabuf

#endif
