// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"
#include "machine.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::sim {
namespace {

uint64_t size_of(uint64_t size)
{
    return size;
}
template <typename T>
uint64_t size_of(const T &object)
{
    return object.size;
}

// Returns the entry of a map by base that contains the address, or null.
template <typename Map>
auto containing(Map &map, CUdeviceptr address) -> decltype(&*map.begin())
{
    auto next = map.upper_bound(address);
    if (next == map.begin())
        return nullptr;
    auto &[base, object] = *--next;
    return address - base < size_of(object) ? &*next : nullptr;
}

char *map_file(int fd, uint64_t offset, uint64_t size)
{
    return static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_NORESERVE, fd,
                                    off_t(offset)));
}

} // namespace

GpuMemory::GpuMemory(int device, uint64_t its_capacity)
    : capacity(its_capacity), fd(memfd_create(gpu_name(device).c_str(),
                                              MFD_CLOEXEC | MFD_ALLOW_SEALING))
{
    constexpr off_t largest = off_t(1) << 60;
    // udmabuf requires this seal.
    if (fd < 0 || ftruncate(fd, largest) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
        complain("cannot make device memory: %m");
}

Extent::Extent(GpuMemory &its_owner, uint64_t its_size)
    : owner(its_owner), offset(its_owner.end), size(its_size),
      data(map_file(its_owner.fd, its_owner.end, its_size))
{
    owner.used += size;
    owner.end += size;
}

Extent::Extent(GpuMemory &its_owner, int file, uint64_t its_offset,
               uint64_t its_size)
    : owner(its_owner), offset(its_offset), size(its_size),
      data(map_file(file, its_offset, its_size)), foreign(true)
{
}

Extent::~Extent()
{
    if (foreign) {
        if (data != MAP_FAILED)
            munmap(data, size);
        return;
    }
    owner.used -= size;
    munmap(data, size);
    // The pages leave the file. A dma-buf made of them keeps them.
    if (!stand_in &&
        fallocate(owner.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  off_t(offset), off_t(size)))
        complain("cannot release device memory: %m");
}

void Extent::populate(uint64_t at, uint64_t length)
{
    constexpr uint64_t many = 64 << 10; // bytes
    if (length < many || populated.exchange(true, std::memory_order_relaxed))
        return;
    const uint64_t begin = at / host_page() * host_page();
    // A kernel before 5.14 refuses; faults then make the pages.
    (void)madvise(data + begin, round_up(at + length, host_page()) - begin,
                  MADV_POPULATE_WRITE);
}

void FreeRanges::add(CUdeviceptr start, uint64_t size)
{
    free_.push_back({start, size});
    total_ += size;
}

std::optional<CUdeviceptr> FreeRanges::take(uint64_t size)
{
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        if (range->size >= size &&
            (best == free_.end() || range->size <= best->size))
            best = range;
    }
    if (best == free_.end())
        return merge() ? take(size) : std::nullopt;
    const CUdeviceptr start = best->start;
    best->start += size;
    best->size -= size;
    if (!best->size)
        free_.erase(best);
    total_ -= size;
    return start;
}

// Joins adjacent ranges. Returns whether there were any.
bool FreeRanges::merge()
{
    std::sort(free_.begin(), free_.end(),
              [](auto &a, auto &b) { return a.start < b.start; });
    std::vector<Range> merged;
    for (const Range &range : free_) {
        if (!merged.empty() &&
            merged.back().start + merged.back().size == range.start)
            merged.back().size += range.size;
        else
            merged.push_back(range);
    }
    free_.swap(merged);
    return free_.size() < merged.size();
}

Allocation *Heap::allocate(uint64_t size)
{
    const uint64_t rounded = round_up(size, unit);
    for (Block *block : blocks_) {
        if (block->free.total() < rounded)
            continue;
        if (auto base = block->free.take(rounded))
            return &memory().enter(*block, *base, size);
    }
    Block *block = memory().add_block(
        kind_, device_,
        memory().make_extent(device_, round_up(rounded, chunk_)), context_);
    if (!block)
        return nullptr;
    block->heap = this;
    block->free.add(block->base, block->size);
    blocks_.push_front(block);
    return &memory().enter(*block, *block->free.take(rounded), size);
}

void Heap::free(Allocation &allocation, bool keep_block)
{
    Block *block = allocation.block;
    block->free.add(allocation.base, round_up(allocation.size, unit));
    memory().allocations.erase(CUdeviceptr(allocation.base));
    blocks_.remove(block);
    if (block->free.total() == block->size && !keep_block)
        memory().remove_block(block);
    else
        blocks_.push_front(block);
}

void Heap::trim(uint64_t keep)
{
    uint64_t held = 0;
    for (const Block *block : blocks_)
        held += block->size;
    blocks_.remove_if([&](Block *block) {
        const bool goes =
            block->free.total() == block->size && held >= keep + block->size;
        if (goes) {
            held -= block->size;
            memory().remove_block(block);
        }
        return goes;
    });
}

void Heap::clear()
{
    for (Block *block : blocks_)
        memory().remove_block(block);
    blocks_.clear();
}

Memory &memory()
{
    static Memory &all = *new Memory();
    return all;
}

Memory::Memory()
{
    for (uint64_t i = 0; i < settings().devices; ++i)
        devices.push_back(
            std::make_unique<GpuMemory>(int(i), settings().memory_bytes));
}

Allocation *Memory::find(CUdeviceptr address)
{
    auto *found = containing(allocations, address);
    return found ? &found->second : nullptr;
}

Block *Memory::block_at(CUdeviceptr address)
{
    auto *found = containing(blocks, address);
    return found ? &found->second : nullptr;
}

std::optional<std::pair<CUdeviceptr, uint64_t>>
Memory::reservation(CUdeviceptr address) const
{
    const auto *found = containing(reservations, address);
    return found ? std::make_optional(*found) : std::nullopt;
}

bool Memory::reserved(CUdeviceptr address, uint64_t size) const
{
    auto found = reservation(address);
    return found && size <= found->second - (address - found->first);
}

CUdeviceptr Memory::reserve(uint64_t size, uint64_t alignment)
{
    constexpr uint64_t chunk = 4ull << 30;
    // The addresses that an alignment wastes are freed at once.
    const uint64_t extra = alignment > block_size ? alignment - block_size : 0;
    auto taken           = addresses_.take(size + extra);
    if (!taken) {
        const uint64_t more = round_up(size + extra, chunk);
        void *address =
            mmap(nullptr, more + block_size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (address == MAP_FAILED) {
            complain("cannot reserve device addresses: %m");
            return 0;
        }
        release(round_up(reinterpret_cast<uint64_t>(address), block_size),
                more);
        taken = addresses_.take(size + extra);
    }
    const CUdeviceptr address = round_up(*taken, alignment);
    if (address > *taken)
        release(*taken, address - *taken);
    if (const uint64_t rest = *taken + extra - address)
        release(address + size, rest);
    return address;
}

void Memory::release(CUdeviceptr address, uint64_t size)
{
    addresses_.add(address, size);
}

std::shared_ptr<Extent> Memory::make_extent(int device, uint64_t size)
{
    GpuMemory &owner = *devices[size_t(device)];
    size             = round_up(size, block_size);
    if (size > owner.capacity - owner.used)
        return nullptr;
    auto extent = std::make_shared<Extent>(owner, size);
    if (extent->data == MAP_FAILED) {
        complain("cannot map device memory: %m");
        return nullptr;
    }
    return extent;
}

Block *Memory::add_block(Kind kind, int device, std::shared_ptr<Extent> extent,
                         CUcontext context)
{
    const CUdeviceptr base = extent ? reserve(extent->size) : 0;
    if (!base)
        return nullptr;
    const uint64_t size = extent->size;
    Block &block        = blocks[base];
    block = {kind, device, base, size, std::move(extent), context};
    return &block;
}

void Memory::remove_block(Block *block)
{
    const CUdeviceptr base = block->base, end = base + block->size;
    allocations.erase(allocations.lower_bound(base),
                      allocations.lower_bound(end));
    // A mapping's addresses belong to a reservation.
    if (block->kind != Kind::vmm)
        release(base, block->size);
    blocks.erase(base);
}

Allocation *Memory::allocate(Kind kind, int device, uint64_t size,
                             CUcontext context)
{
    Block *block = add_block(kind, device, make_extent(device, size), context);
    return block ? &enter(*block, block->base, size) : nullptr;
}

Allocation &Memory::enter(Block &block, CUdeviceptr base, uint64_t size)
{
    const Allocation one{block.kind,   base,          size,  next_id(),
                         block.device, block.context, &block};
    return allocations.insert_or_assign(base, one).first->second;
}

void Memory::free(Allocation &allocation)
{
    if (Heap *heap = allocation.block->heap)
        heap->free(allocation, false);
    else
        remove_block(allocation.block);
}

} // namespace ucx_ib_dmabuf::sim
