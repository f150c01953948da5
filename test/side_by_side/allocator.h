// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/gpu.h>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ucx_ib_dmabuf::test {

// Device memory of one kind:
//   device  cuMemAlloc
//   pool    cuMemAllocAsync; what is given back leaves the pool
//   vmm     handles, mapped into one range of addresses
class allocator {
public:
    static constexpr size_t range = size_t{1} << 30;

    explicit allocator(const std::string &kind);
    ~allocator();
    allocator(const allocator &)            = delete;
    allocator &operator=(const allocator &) = delete;

    uint8_t *allocate(size_t size);
    // At that place in the range; of vmm alone.
    uint8_t *map(size_t offset, size_t size);
    void release(uint8_t *at);

private:
    const gpu::memory kind_;
    std::optional<gpu::reservation> place_;
    size_t mapped_ = 0; // up to there, or what was released of the same size
    std::map<size_t, uint8_t *> released_; // by size, the last one
    struct block {
        size_t size;
        std::unique_ptr<gpu::physical> memory; // of vmm
        std::unique_ptr<gpu::buffer> buffer;   // of the others
    };
    std::map<uint8_t *, block> blocks_;
};

} // namespace ucx_ib_dmabuf::test
