// SPDX-License-Identifier: BSD-3-Clause
//
// What is allocated, where, and by whom.
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

// Of which a pool's blocks are multiples.
inline constexpr uint64_t pool_chunk = 32ull << 20;

struct Block;
class Heap;

struct Allocation {
    Kind kind;
    CUdeviceptr base;
    uint64_t size;               // as asked for
    uint64_t id;                 // BUFFER_ID: never given twice
    int device;                  // of the context, for host memory
    CUcontext context = nullptr; // null for VMM and pool memory
    CUmemoryPool pool = nullptr;
    Block *block      = nullptr; // null for memory of the host
    bool sync_memops  = false;
};

// What cuMemCreate made.
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
    uint64_t offset = 0;       // into the extent
    uint64_t id     = 0;       // MEMORY_BLOCK_ID
    Heap *heap      = nullptr; // where the block is shared by allocations
    std::list<Block *>::iterator place;     // in one of the heap's lists
    std::shared_ptr<PhysicalHandle> handle; // VMM
    uint64_t readable = 0, writable = 0;    // by devices, a bit each
    FreeRanges free;                        // of heap blocks
    std::map<CUdeviceptr, Allocation> allocations;
};

// Small allocations share blocks. Guarded by the lock of Memory.
class Heap {
public:
    Heap(int device, Kind kind, uint64_t chunk)
        : device_(device), kind_(kind), chunk_(chunk)
    {
    }

    // Null if the device's memory is used up. 'size' is not 0.
    Allocation *allocate(uint64_t size);
    void free(Allocation &allocation, bool keep_block);
    // Release empty blocks until no more than 'keep' bytes are held.
    void trim(uint64_t keep);
    // Release everything, allocations included.
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
    // Those that changed last come first.
    std::list<Block *> open_, full_;
    uint64_t held_ = 0;
};

class Memory {
public:
    // Exclusive for changes, shared for everything that only looks, copies
    // included.
    std::shared_mutex lock;
    AddressSpace space;
    std::vector<std::unique_ptr<PhysicalMemory>> devices;
    std::map<CUdeviceptr, Allocation> host; // by base; CPU-accessible memory
    std::map<uint64_t, std::shared_ptr<PhysicalHandle>> handles;
    std::map<CUdeviceptr, uint64_t> reservations;
    // Ranges that went with their context and are not used again yet.
    std::map<CUdeviceptr, uint64_t> gone;

    Memory();

    // All of the following want the lock.

    // The allocation that 'address' is in, or null.
    Allocation *find(CUdeviceptr address);

    // The reservation that an address is in: base and size, or nothing.
    std::optional<std::pair<CUdeviceptr, uint64_t>>
    reservation(CUdeviceptr address) const;

    // Whether the address belonged to a context that is no more.
    bool is_gone(CUdeviceptr address) const;

    // Whether a range is within one reservation of addresses.
    bool reserved(CUdeviceptr address, uint64_t size) const;

    // A block of its own for 'size' bytes of a device, without allocations in
    // it. Null if there is no memory.
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
