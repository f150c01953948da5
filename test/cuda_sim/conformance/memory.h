// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../compat.h"

#include <common/gpu.h>
#include <cstdint>
#include <vector>

namespace ucx_ib_dmabuf::conformance {

inline constexpr size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

uint64_t host_page();

CUresult export_range(int *fd, CUdeviceptr address, size_t size,
                      unsigned long long flags = 0);

// As above; the descriptor is closed.
CUresult try_export(CUdeviceptr address, size_t size,
                    unsigned long long flags = 0);

// 0 where the address is unknown.
unsigned long long buffer_id(CUdeviceptr address);

// A pointer attribute that is a number; -1 where it cannot be had.
long long number(CUpointer_attribute which, CUdeviceptr address);

size_t free_bytes();

// A byte to the host; until it is there.
CUresult copy_in(CUstream stream, CUdeviceptr address);
// The same in a new stream, which waits for no other.
CUresult copy_in_own_stream(CUdeviceptr address);

// Addresses with physical memory of several handles one after the other.
class Mapping {
public:
    // 'rdma': whether the memory is created with gpuDirectRDMACapable.
    Mapping(size_t handles, size_t backed, bool rdma = true);
    ~Mapping();
    Mapping(const Mapping &)            = delete;
    Mapping &operator=(const Mapping &) = delete;

    // Put new memory behind one of the pieces.
    void replace(size_t index);

    bool valid() const { return valid_; }
    CUdeviceptr base() const { return base_; }
    size_t unit() const { return unit_; }
    size_t size() const { return unit_ * count_; }

private:
    void map(size_t index);

    size_t unit_      = 0, count_;
    CUdeviceptr base_ = 0;
    CUmemAllocationProp properties_;
    std::vector<bool> mapped_;
    bool valid_ = true;
};

} // namespace ucx_ib_dmabuf::conformance
