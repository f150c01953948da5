// SPDX-License-Identifier: BSD-3-Clause
//
// All allocations: their kinds, addresses and owners.
#pragma once

#include "physical.h"
#include "space.h"

#include <cuda.h>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace ucx_ib_dmabuf::sim {

enum class Kind {
    device,     // cuMemAlloc
    vmm,        // cuMemMap
    pool,       // cuMemAllocAsync
    managed,    // cuMemAllocManaged
    host,       // cuMemAllocHost, cuMemHostAlloc
    registered, // cuMemHostRegister
    module,     // a variable of a module or a library
    opened,     // cuIpcOpenMemHandle
};

// The size of a pool's block is a multiple of this.
inline constexpr uint64_t pool_chunk = 32ull << 20;

struct Block;
class Heap;

struct Allocation {
    Kind kind;
    CUdeviceptr base;
    uint64_t size;               // as requested
    uint64_t id;                 // BUFFER_ID, never reused
    int device;                  // of the context, for host memory
    CUcontext context = nullptr; // null for VMM and pool memory
    CUmemoryPool pool = nullptr;
    Block *block      = nullptr; // null for host memory
    bool sync_memops  = false;
};

// Memory made by cuMemCreate.
struct PhysicalHandle {
    std::shared_ptr<Extent> extent;
    CUmemAllocationProp properties;
    uint64_t number;     // the handle's value
    uint64_t references; // by cuMemCreate and cuMemRetainAllocationHandle
};

// Addresses with physical memory behind them.
struct Block {
    Kind kind;
    int device;
    CUdeviceptr base;
    uint64_t size;
    std::shared_ptr<Extent> extent;
    uint64_t offset = 0;                    // into the extent
    uint64_t id     = 0;                    // MEMORY_BLOCK_ID
    Heap *heap      = nullptr;              // if allocations share the block
    std::list<Block *>::iterator place;     // in one of the heap's lists
    std::shared_ptr<PhysicalHandle> handle; // VMM
    uint64_t readable = 0, writable = 0;    // one bit per device
    FreeRanges free;                        // of heap blocks
    std::map<CUdeviceptr, Allocation> allocations;
};

// Memory for small allocations, which share blocks. Guarded by the lock of
// Memory.
class Heap {
public:
    Heap(int device, Kind kind, uint64_t chunk)
        : device_(device), kind_(kind), chunk_(chunk)
    {
    }

    // Returns null if the device's memory is exhausted. 'size' is not 0.
    Allocation *allocate(uint64_t size);
    void free(Allocation &allocation, bool keep_block);
    // Releases empty blocks as long as at least 'keep' bytes remain.
    void trim(uint64_t keep);
    // Releases everything, allocations included.
    void clear();

    template <typename F>
    void each_block(F see) const
    {
        for (auto *list : {&open_, &full_}) {
            for (const Block *block : *list)
                see(*block);
        }
    }

private:
    static constexpr uint64_t unit = 512;

    Allocation &take(Block *block, CUdeviceptr base, uint64_t size);
    void remove(std::list<Block *> &list, Block *block);

    const int device_;
    const Kind kind_;
    const uint64_t chunk_;
    // The blocks that changed last come first.
    std::list<Block *> open_, full_;
    uint64_t held_ = 0;
};

class Memory {
public:
    // Exclusive for changes, shared for reads, copies included.
    std::shared_mutex lock;
    AddressSpace space;
    std::vector<std::unique_ptr<PhysicalMemory>> devices;
    std::map<CUdeviceptr, Allocation> host; // by base; CPU-accessible memory
    std::map<uint64_t, std::shared_ptr<PhysicalHandle>> handles;
    std::map<CUdeviceptr, uint64_t> reservations;
    // Ranges freed with their context and not reused yet.
    std::map<CUdeviceptr, uint64_t> gone;

    Memory();

    // All of the following require the lock.

    // Returns the allocation that contains 'address', or null.
    Allocation *find(CUdeviceptr address);

    // Returns base and size of the address's reservation, or nothing.
    std::optional<std::pair<CUdeviceptr, uint64_t>>
    reservation(CUdeviceptr address) const;

    // Whether the address belonged to a destroyed context.
    bool is_gone(CUdeviceptr address) const;

    // Whether a range lies within one reservation of addresses.
    bool reserved(CUdeviceptr address, uint64_t size) const;

    // Makes a block for 'size' bytes of a device, without allocations. Returns
    // null if there is no memory.
    Block *add_block(Kind kind, int device, uint64_t size);
    Block *place(Kind kind, int device, std::shared_ptr<Extent> extent);
    void remove_block(Block *block);

    Allocation *allocate(Kind kind, int device, uint64_t size);
    void free(Allocation &allocation);

    uint64_t next_id() { return ++last_id_; }
    uint64_t used() const;
    Allocation &enter(Block &block, CUdeviceptr base, uint64_t size);
    void leave(Allocation &allocation);

private:
    uint64_t last_id_ = 0;
};

// Never destroyed.
Memory &memory();

} // namespace ucx_ib_dmabuf::sim
