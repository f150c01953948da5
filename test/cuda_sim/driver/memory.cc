// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"
#include "settings.h"

#include <iterator>

namespace ucx_ib_dmabuf::sim {
namespace {

// Returns the range, of a map from base to size, that contains the address.
std::optional<std::pair<CUdeviceptr, uint64_t>>
range_at(const std::map<CUdeviceptr, uint64_t> &ranges, CUdeviceptr address)
{
    auto next = ranges.upper_bound(address);
    if (next == ranges.begin())
        return std::nullopt;
    auto [base, size] = *std::prev(next);
    if (address - base >= size)
        return std::nullopt;
    return std::make_pair(base, size);
}

} // namespace

Memory &memory()
{
    static Memory &all = *new Memory();
    return all;
}

Memory::Memory()
{
    for (uint64_t i = 0; i < settings().devices; ++i)
        devices.push_back(
            std::make_unique<PhysicalMemory>(int(i), settings().memory_bytes));
}

Allocation *Memory::find(CUdeviceptr address)
{
    auto inside = [address](auto &map) -> Allocation * {
        auto next = map.upper_bound(address);
        if (next == map.begin())
            return nullptr;
        Allocation &found = std::prev(next)->second;
        return address - found.base < found.size ? &found : nullptr;
    };
    if (Block *block = space.find(address))
        return inside(block->allocations);
    return host.empty() ? nullptr : inside(host);
}

bool Memory::reserved(CUdeviceptr address, uint64_t size) const
{
    auto found = reservation(address);
    return found && size <= found->second - (address - found->first);
}

std::optional<std::pair<CUdeviceptr, uint64_t>>
Memory::reservation(CUdeviceptr address) const
{
    return range_at(reservations, address);
}

bool Memory::is_gone(CUdeviceptr address) const
{
    return range_at(gone, address).has_value();
}

Block *Memory::add_block(Kind kind, int device, uint64_t size)
{
    auto extent = devices[size_t(device)]->allocate(round_up(size, block_size));
    return extent ? place(kind, device, std::move(extent)) : nullptr;
}

Block *Memory::place(Kind kind, int device, std::shared_ptr<Extent> extent)
{
    const uint64_t size = extent->size;
    CUdeviceptr base    = space.reserve(size);
    if (!base)
        return nullptr;
    auto *block     = new Block{};
    block->kind     = kind;
    block->device   = device;
    block->base     = base;
    block->size     = size;
    block->extent   = std::move(extent);
    block->id       = next_id();
    block->readable = block->writable = ~uint64_t(0);
    space.set(base, size, block);
    std::erase_if(gone, [base, size](auto &one) {
        return one.first < base + size && base < one.first + one.second;
    });
    return block;
}

void Memory::remove_block(Block *block)
{
    space.set(block->base, block->size, nullptr);
    // A mapping's addresses belong to a reservation.
    if (block->kind != Kind::vmm)
        space.release(block->base, block->size);
    delete block;
}

Allocation &Memory::enter(Block &block, CUdeviceptr base, uint64_t size)
{
    Allocation one{block.kind, base, size, next_id(), block.device};
    one.block = &block;
    return block.allocations.insert_or_assign(base, one).first->second;
}

void Memory::leave(Allocation &allocation)
{
    allocation.block->allocations.erase(CUdeviceptr(allocation.base));
}

Allocation *Memory::allocate(Kind kind, int device, uint64_t size)
{
    Block *block = add_block(kind, device, size);
    return block ? &enter(*block, block->base, size) : nullptr;
}

void Memory::free(Allocation &allocation)
{
    if (Heap *heap = allocation.block->heap)
        heap->free(allocation, false);
    else
        remove_block(allocation.block);
}

uint64_t Memory::used() const
{
    uint64_t sum = 0;
    for (auto &device : devices)
        sum += device->used();
    return sum;
}

Allocation *Heap::allocate(uint64_t size)
{
    uint64_t rounded = round_up(size, unit);
    for (Block *block : open_) {
        if (block->free.total() < rounded)
            continue;
        if (auto base = block->free.take(rounded))
            return &take(block, *base, size);
    }
    Block *block =
        memory().add_block(kind_, device_, round_up(rounded, chunk_));
    if (!block)
        return nullptr;
    block->heap = this;
    block->free.add(block->base, block->size);
    block->place = open_.insert(open_.begin(), block);
    held_ += block->size;
    return &take(block, *block->free.take(rounded), size);
}

Allocation &Heap::take(Block *block, CUdeviceptr base, uint64_t size)
{
    auto &list = block->free.total() ? open_ : full_;
    list.splice(list.begin(), open_, block->place);
    return memory().enter(*block, base, size);
}

void Heap::free(Allocation &allocation, bool keep_block)
{
    Block *block     = allocation.block;
    uint64_t rounded = round_up(allocation.size, unit);
    auto &list       = block->free.total() ? open_ : full_;
    open_.splice(open_.begin(), list, block->place);
    block->free.add(allocation.base, rounded);
    memory().leave(allocation);
    if (block->allocations.empty() && !keep_block)
        remove(open_, block);
}

void Heap::remove(std::list<Block *> &list, Block *block)
{
    list.erase(block->place);
    held_ -= block->size;
    memory().remove_block(block);
}

void Heap::trim(uint64_t keep)
{
    for (auto one = open_.begin(); one != open_.end() && held_ > keep;) {
        Block *block = *one++;
        if (block->allocations.empty() && held_ - block->size >= keep)
            remove(open_, block);
    }
}

void Heap::clear()
{
    for (auto *list : {&open_, &full_}) {
        while (!list->empty())
            remove(*list, list->front());
    }
}

} // namespace ucx_ib_dmabuf::sim
