// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_RANGE_H_
#define UCX_IB_DMABUF_CUDA_RANGE_H_

#include "memory.h"

namespace ucx_ib_dmabuf {

// The allocation, or all VMM segments that the range touches: up to the end of
// the last one, with a hash of their identities. Errors are those of
// cuda_segment_at(), and of device memory UCS_ERR_INVALID_PARAM: the range is
// empty, or goes over into something else than further VMM segments of the same
// GPU. Of other memory, what is at the first byte.
ucs_status_t cuda_describe(const driver &cuda, uintptr_t address, size_t length,
                           cuda_memory *out);

// Whether the range, as cuda_describe() gave it or a part of one allocation,
// still has this identity. One driver call for ordinary allocations.
bool cuda_is_current(const driver &cuda, uintptr_t address, size_t length,
                     uint64_t identity);

} // namespace ucx_ib_dmabuf

#endif
