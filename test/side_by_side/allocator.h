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
//   pool    cuMemAllocAsync; the pool releases freed memory at once
//   vmm     handles, mapped into one reserved range of addresses
class allocator {
public:
    static constexpr size_t range = size_t{1} << 30;

    explicit allocator(const std::string &kind);
    ~allocator();
    allocator(const allocator &)            = delete;
    allocator &operator=(const allocator &) = delete;

    uint8_t *allocate(size_t size);
    // Maps at this offset in the range; for vmm only.
    uint8_t *map(size_t offset, size_t size);
    void release(uint8_t *at);

private:
    const gpu::memory kind_;
    std::optional<gpu::reservation> place_;
    size_t mapped_ = 0;                    // end of the used range
    std::map<size_t, uint8_t *> released_; // last one of each size
    struct block {
        size_t size;
        std::unique_ptr<gpu::physical> memory; // for vmm
        std::unique_ptr<gpu::buffer> buffer;   // for the other kinds
    };
    std::map<uint8_t *, block> blocks_;
};

} // namespace ucx_ib_dmabuf::test
