// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "physical.h"

#include <cuda.h>
#include <memory>

namespace ucx_ib_dmabuf::sim {

struct Block;

// Addresses of device memory. They are reserved in this process without access
// rights, so that CPU access crashes, as on a GPU's. Guarded by the lock of
// Memory.
class AddressSpace {
public:
    AddressSpace();

    // Returns a multiple of block_size; 0 if no addresses are left.
    CUdeviceptr reserve(uint64_t size, uint64_t alignment = block_size);
    void release(CUdeviceptr address, uint64_t size);

    // Returns the block of an address, by two table look-ups.
    Block *find(CUdeviceptr address) const
    {
        uint64_t index = address / block_size;
        if (index >= root_size * leaf_size)
            return nullptr;
        const Leaf *leaf = root_[index / leaf_size].get();
        return leaf ? leaf->blocks[index % leaf_size] : nullptr;
    }

    // A null block removes the entries.
    void set(CUdeviceptr address, uint64_t size, Block *block);

private:
    static constexpr uint64_t leaf_size = 1 << 13;
    static constexpr uint64_t root_size = 1 << 14; // up to 2^48
    static constexpr uint64_t chunk     = 4ull << 30;

    struct Leaf {
        Block *blocks[leaf_size] = {};
    };

    bool grow(uint64_t size);

    FreeRanges free_;
    std::unique_ptr<std::unique_ptr<Leaf>[]> root_;
};

} // namespace ucx_ib_dmabuf::sim
