// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "physical.h"

#include <cuda.h>

namespace ucx_ib_dmabuf::sim {

// Addresses of device memory. They are reserved in this process without access
// rights, so that CPU access crashes, as on a GPU's. Guarded by the lock of
// Memory.
class AddressSpace {
public:
    // Returns a multiple of block_size; 0 if no addresses are left.
    CUdeviceptr reserve(uint64_t size, uint64_t alignment = block_size);
    void release(CUdeviceptr address, uint64_t size);

private:
    bool grow(uint64_t size);

    FreeRanges free_;
};

} // namespace ucx_ib_dmabuf::sim
