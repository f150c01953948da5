// SPDX-License-Identifier: BSD-3-Clause
#include "space.h"
#include "settings.h"

#include <sys/mman.h>

namespace ucx_ib_dmabuf::sim {

AddressSpace::AddressSpace()
    : root_(std::make_unique<std::unique_ptr<Leaf>[]>(root_size))
{
}

CUdeviceptr AddressSpace::reserve(uint64_t size, uint64_t alignment)
{
    // The addresses that an alignment wastes are freed at once.
    uint64_t extra = alignment > block_size ? alignment - block_size : 0;
    auto taken     = free_.take(size + extra);
    if (!taken) {
        if (!grow(size + extra))
            return 0;
        taken = free_.take(size + extra);
    }
    uint64_t address = round_up(*taken, alignment);
    if (address > *taken)
        free_.add(*taken, address - *taken);
    if (uint64_t rest = *taken + extra - address)
        free_.add(address + size, rest);
    return address;
}

void AddressSpace::release(CUdeviceptr address, uint64_t size)
{
    free_.add(address, size);
}

void AddressSpace::set(CUdeviceptr address, uint64_t size, Block *block)
{
    for (uint64_t end = address + size; address < end; address += block_size) {
        uint64_t index             = address / block_size;
        std::unique_ptr<Leaf> &one = root_[index / leaf_size];
        if (!one)
            one = std::make_unique<Leaf>();
        one->blocks[index % leaf_size] = block;
    }
}

bool AddressSpace::grow(uint64_t size)
{
    size          = round_up(size, chunk);
    void *address = mmap(nullptr, size + block_size, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        complain("cannot reserve device addresses: %m");
        return false;
    }
    free_.add(round_up(reinterpret_cast<uint64_t>(address), block_size), size);
    return true;
}

} // namespace ucx_ib_dmabuf::sim
