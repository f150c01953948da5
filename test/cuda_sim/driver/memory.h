// SPDX-License-Identifier: BSD-3-Clause
//
// All memory: addresses, the bytes behind them, and allocations. Guarded by the
// lock of Memory, which the caller must hold exclusively for changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cuda.h>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ucx_ib_dmabuf::sim {

// The unit of device memory and of its addresses.
inline constexpr uint64_t block_size = 2ull << 20;
// The size of a pool's block is a multiple of this.
inline constexpr uint64_t pool_chunk = 32ull << 20;

// The host's pages have 4, 16 or 64 KiB.
inline uint64_t host_page()
{
    static const auto size = uint64_t(sysconf(_SC_PAGESIZE));
    return size;
}

inline constexpr uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

// One simulated GPU's memory: a sparse memory file (memfd). Its pages exist
// only after they were written.
struct GpuMemory {
    GpuMemory(int device, uint64_t capacity);

    const uint64_t capacity;
    uint64_t used = 0;
    uint64_t end  = 0; // of all extents so far, in the file
    int fd;
};

// Physical memory, zero at first, which ends with its last owner. The simulated
// GPU then loses the pages, but a dma-buf that was made of them keeps them. No
// part of the file is used twice.
struct Extent {
    Extent(GpuMemory &its_owner, uint64_t its_size);
    // Another process's memory, in its file.
    Extent(GpuMemory &its_owner, int file, uint64_t its_offset,
           uint64_t its_size);
    ~Extent();
    Extent(const Extent &)            = delete;
    Extent &operator=(const Extent &) = delete;

    // Call this before the CPU writes the range. The first large write makes
    // its pages in one call: a fault for each is slow, above all on a kernel in
    // user mode.
    void populate(uint64_t at, uint64_t length);

    GpuMemory &owner;
    const uint64_t offset;      // in the memory file
    const uint64_t size;        // a multiple of block_size
    char *const data;           // the CPU's address
    const bool foreign = false; // of another process
    // A stand-in for a dma-buf was made. It cannot keep pages alive, so the
    // file keeps them.
    std::atomic<bool> stand_in{false};
    std::atomic<bool> populated{false};
};

// Free ranges of addresses. A request takes the smallest range that suffices,
// and of these the one that was freed last, as in allocators. This makes a
// stale registration of an address likely.
class FreeRanges {
public:
    void add(CUdeviceptr start, uint64_t size);
    // Returns nothing if there is no such range.
    std::optional<CUdeviceptr> take(uint64_t size);
    uint64_t total() const { return total_; }

private:
    struct Range {
        CUdeviceptr start;
        uint64_t size;
    };
    bool merge();

    std::vector<Range> free_; // the last one was freed last
    uint64_t total_ = 0;
};

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

// Memory made by cuMemCreate.
struct PhysicalHandle {
    std::shared_ptr<Extent> extent;
    CUmemAllocationProp properties;
    uint64_t number;     // the handle's value
    uint64_t references; // by cuMemCreate and cuMemRetainAllocationHandle
};

class Heap;

// Addresses with physical memory behind them.
struct Block {
    Kind kind;
    int device;
    CUdeviceptr base;
    uint64_t size;
    std::shared_ptr<Extent> extent;
    CUcontext context = nullptr;              // null for VMM and pool memory
    Heap *heap        = nullptr;              // if allocations share the block
    std::shared_ptr<PhysicalHandle> handle{}; // VMM
    // Each has a bit per device. cuMemSetAccess sets those of VMM memory.
    uint64_t readable = ~uint64_t(0), writable = ~uint64_t(0);
    FreeRanges free{}; // of a heap's block

    // Mapped host memory (CU_MEM_LOCATION_TYPE_HOST_NUMA), to which the CPU has
    // no access. Its bytes are in the first GPU's file.
    bool is_on_host() const
    {
        return handle &&
               handle->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    }
};

struct Allocation {
    Kind kind;
    CUdeviceptr base;
    uint64_t size;               // as requested
    uint64_t id;                 // BUFFER_ID, never reused
    int device;                  // of the context, for host memory
    CUcontext context;           // null for VMM and pool memory
    Block *block      = nullptr; // null for host memory
    CUmemoryPool pool = nullptr;
    bool sync_memops  = false;
};

// Memory for small allocations, which share blocks.
class Heap {
public:
    Heap(Kind kind, int device, uint64_t chunk, CUcontext context = nullptr)
        : kind_(kind), device_(device), chunk_(chunk), context_(context)
    {
    }

    // Returns null if the device's memory is exhausted. 'size' is not 0.
    Allocation *allocate(uint64_t size);
    void free(Allocation &allocation, bool keep_block);
    // Releases empty blocks as long as at least 'keep' bytes remain.
    void trim(uint64_t keep);
    // Releases everything, allocations included.
    void clear();

private:
    const Kind kind_;
    const int device_;
    const uint64_t chunk_;
    const CUcontext context_;
    static constexpr uint64_t unit = 512;

    std::list<Block *> blocks_; // the one that was freed from last comes first
};

class Memory {
public:
    // Exclusive for changes, shared for reads, copies included.
    std::shared_mutex lock;
    std::vector<std::unique_ptr<GpuMemory>> devices;
    // By first address.
    std::map<CUdeviceptr, Allocation> allocations; // host memory's, too
    std::map<CUdeviceptr, Block> blocks;
    std::map<CUdeviceptr, uint64_t> reservations;
    std::map<uint64_t, std::shared_ptr<PhysicalHandle>> handles;

    Memory();

    // All of the following require the lock.

    // Return the allocation or block that contains 'address', or null.
    Allocation *find(CUdeviceptr address);
    Block *block_at(CUdeviceptr address);

    // Returns base and size of the address's reservation, or nothing.
    std::optional<std::pair<CUdeviceptr, uint64_t>>
    reservation(CUdeviceptr address) const;

    // Whether a range lies within one reservation of addresses.
    bool reserved(CUdeviceptr address, uint64_t size) const;

    // Addresses of device memory, without access rights for the CPU, as on a
    // GPU's. Returns a multiple of block_size; 0 if none are left.
    CUdeviceptr reserve(uint64_t size, uint64_t alignment = block_size);
    void release(CUdeviceptr address, uint64_t size);

    // Returns null if a device has less than 'size' left.
    std::shared_ptr<Extent> make_extent(int device, uint64_t size);

    // Makes a block without allocations. Returns null if there is no memory.
    Block *add_block(Kind kind, int device, std::shared_ptr<Extent> extent,
                     CUcontext context);
    // With all its allocations.
    void remove_block(Block *block);

    // Makes an allocation that is a block of its own.
    Allocation *allocate(Kind kind, int device, uint64_t size,
                         CUcontext context);
    Allocation &enter(Block &block, CUdeviceptr base, uint64_t size);
    void free(Allocation &allocation);

    uint64_t next_id() { return ++last_id_; }

private:
    FreeRanges addresses_;
    uint64_t last_id_ = 0;
};

// Never destroyed.
Memory &memory();

} // namespace ucx_ib_dmabuf::sim
