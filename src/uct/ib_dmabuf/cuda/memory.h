// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_MEMORY_H_
#define UCX_IB_DMABUF_CUDA_MEMORY_H_

#include "context.h"
#include <cstddef>
#include <cstdint>
#include <optional>

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
    uintptr_t base;    // of the allocation, or of the VMM segment
    size_t size;       // bytes
    uint64_t identity; // CU_POINTER_ATTRIBUTE_BUFFER_ID, which no two
                       // allocations of a process share
    int device;        // CUDA ordinal
    kind type;
    bool joins; // a VMM segment: a buffer may go on in the next one
};

// The allocation or the VMM segment that the address is in. UCS_ERR_NO_ELEM: it
// is not CUDA memory. UCS_ERR_UNSUPPORTED: device memory, of which
// the driver does not tell where it begins and ends (logged); UCS_ERR_BUSY: it
// may a moment later. A context that the caller keeps, within a
// relaxed_capture, serves all segments of a range; it is made where it is
// needed first.
ucs_status_t cuda_segment_at(const driver &cuda, uintptr_t address,
                             cuda_memory *out,
                             std::optional<scoped_context> *context = nullptr);

// Whether the address still belongs to this identity. One driver call.
bool cuda_is_current(const driver &cuda, uintptr_t address, uint64_t identity);

// Whether any GPU can export its memory
// (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED). If not, `why` tells.
bool cuda_can_export(const driver &cuda, text *why);

} // namespace ucx_ib_dmabuf

#endif
