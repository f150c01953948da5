// SPDX-License-Identifier: BSD-3-Clause
#include "allocator.h"

namespace ucx_ib_dmabuf::test {
namespace {

using gpu::memory;

memory kind_of(const std::string &name)
{
    for (memory kind : {memory::device, memory::pool, memory::vmm}) {
        if (name == name_of(kind)) {
            return kind;
        }
    }
    throw std::runtime_error("no such kind of memory: " + name);
}

} // namespace

allocator::allocator(const std::string &kind) : kind_(kind_of(kind))
{
    if (kind_ == memory::vmm) {
        place_.emplace(range);
    }
}

allocator::~allocator()
{
    while (!blocks_.empty()) {
        release(blocks_.begin()->first);
    }
}

uint8_t *allocator::allocate(size_t size)
{
    if (kind_ == memory::vmm) {
        if (auto found = released_.extract(size)) {
            return map(found.mapped() - place_->at(), size);
        }
        return map(mapped_, size);
    }
    auto memory = std::make_unique<gpu::buffer>(size, kind_);
    uint8_t *at = memory->at();
    blocks_.emplace(at, block{size, nullptr, std::move(memory)});
    return at;
}

uint8_t *allocator::map(size_t offset, size_t size)
{
    auto memory = std::make_unique<gpu::physical>(size);

    memory->map(place_->address(offset));
    blocks_.emplace(place_->at(offset),
                    block{size, std::move(memory), nullptr});
    mapped_ = std::max(mapped_, offset + size);
    return place_->at(offset);
}

void allocator::release(uint8_t *at)
{
    const auto found = blocks_.find(at);

    if (kind_ == memory::vmm) {
        found->second.memory->unmap(reinterpret_cast<CUdeviceptr>(at));
        released_[found->second.size] = at;
    }
    blocks_.erase(found);
    if (kind_ == memory::pool) {
        CUmemoryPool pool;
        GPU_CALL(cuDeviceGetDefaultMemPool, &pool, gpu::current());
        GPU_CALL(cuMemPoolTrimTo, pool, 0);
    }
}

} // namespace ucx_ib_dmabuf::test
