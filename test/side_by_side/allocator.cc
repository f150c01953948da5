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

CUdeviceptr as_pointer(const uint8_t *at)
{
    return reinterpret_cast<CUdeviceptr>(at);
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
    CUdeviceptr address = 0;

    if (kind_ == memory::vmm) {
        if (auto found = released_.extract(size)) {
            return map(found.mapped() - place_->at(), size);
        }
        return map(mapped_, size);
    }
    if (kind_ == memory::pool) {
        GPU_CALL(cuMemAllocAsync, &address, size, nullptr);
        GPU_CALL(cuStreamSynchronize, nullptr);
    } else {
        GPU_CALL(cuMemAlloc, &address, size);
    }
    auto *at = reinterpret_cast<uint8_t *>(address);
    blocks_.emplace(at, block{size, nullptr});
    return at;
}

uint8_t *allocator::map(size_t offset, size_t size)
{
    auto memory = std::make_unique<gpu::physical>(size);

    memory->map(place_->address(offset));
    blocks_.emplace(place_->at(offset), block{size, std::move(memory)});
    mapped_ = std::max(mapped_, offset + size);
    return place_->at(offset);
}

void allocator::release(uint8_t *at)
{
    const auto found = blocks_.find(at);

    switch (kind_) {
    case memory::vmm:
        found->second.memory->unmap(as_pointer(at));
        released_[found->second.size] = at;
        break;
    case memory::pool:
        CUmemoryPool pool;
        GPU_CALL(cuMemFreeAsync, as_pointer(at), nullptr);
        GPU_CALL(cuStreamSynchronize, nullptr);
        GPU_CALL(cuDeviceGetDefaultMemPool, &pool, gpu::current());
        GPU_CALL(cuMemPoolTrimTo, pool, 0);
        break;
    default:
        GPU_CALL(cuMemFree, as_pointer(at));
    }
    blocks_.erase(found);
}

} // namespace ucx_ib_dmabuf::test
