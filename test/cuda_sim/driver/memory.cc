// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"
#include "settings.h"

#include <iterator>

namespace ucx_ib_dmabuf::sim {

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

Block *Memory::add_block(Kind kind, int device, uint64_t size)
{
    size        = round_up(size, block_size);
    auto extent = devices[size_t(device)]->allocate(size);
    if (!extent)
        return nullptr;
    CUdeviceptr base = space.reserve(size);
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
    return block;
}

void Memory::remove_block(Block *block)
{
    live_ -= block->allocations.size();
    space.set(block->base, block->size, nullptr);
    // The addresses of mappings belong to a reservation.
    if (block->kind != Kind::vmm)
        space.release(block->base, block->size);
    delete block;
}

Allocation &Memory::enter(Block &block, CUdeviceptr base, uint64_t size)
{
    Allocation one{block.kind, base, size, next_id(), block.device};
    one.block = &block;
    ++live_;
    return block.allocations.insert_or_assign(base, one).first->second;
}

void Memory::leave(Allocation &allocation)
{
    --live_;
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
    for (auto one = blocks_.begin(); one != blocks_.end(); ++one) {
        Block *block = *one;
        if (block->free.total() < rounded)
            continue;
        if (auto base = block->free.take(rounded)) {
            used_ += rounded;
            blocks_.splice(blocks_.begin(), blocks_, one);
            return &memory().enter(*block, *base, size);
        }
    }
    Block *block =
        memory().add_block(kind_, device_, rounded > chunk_ ? rounded : chunk_);
    if (!block)
        return nullptr;
    block->heap = this;
    block->free.add(block->base, block->size);
    blocks_.push_front(block);
    held_ += block->size;
    used_ += rounded;
    return &memory().enter(*block, *block->free.take(rounded), size);
}

void Heap::free(Allocation &allocation, bool keep_block)
{
    Block *block     = allocation.block;
    uint64_t rounded = round_up(allocation.size, unit);
    block->free.add(allocation.base, rounded);
    used_ -= rounded;
    memory().leave(allocation);
    blocks_.remove(block);
    blocks_.push_front(block);
    if (block->allocations.empty() && !keep_block) {
        blocks_.pop_front();
        held_ -= block->size;
        memory().remove_block(block);
    }
}

void Heap::trim(uint64_t keep)
{
    for (auto one = blocks_.begin(); one != blocks_.end() && held_ > keep;) {
        Block *block = *one;
        if (block->allocations.empty() && held_ - block->size >= keep) {
            held_ -= block->size;
            memory().remove_block(block);
            one = blocks_.erase(one);
        } else {
            ++one;
        }
    }
}

void Heap::clear()
{
    for (Block *block : blocks_)
        memory().remove_block(block);
    blocks_.clear();
    held_ = used_ = 0;
}

} // namespace ucx_ib_dmabuf::sim
