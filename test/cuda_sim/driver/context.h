// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts. Guarded by the lock of Memory, except for atomic members.
#pragma once

#include "memory.h"

#include <atomic>
#include <cuda.h>
#include <set>

// Contexts are never deleted, so that a stale handle causes an error and not a
// crash.
struct CUctx_st {
    explicit CUctx_st(int its_device)
        : device(its_device), heap(ucx_ib_dmabuf::sim::Kind::device, its_device,
                                   ucx_ib_dmabuf::sim::block_size, this)
    {
    }

    const int device;
    uint64_t id = 0;
    std::atomic<bool> alive{false};
    unsigned flags    = 0;
    uint64_t retained = 0;         // references to a primary one
    ucx_ib_dmabuf::sim::Heap heap; // small allocations
};

namespace ucx_ib_dmabuf::sim {

CUcontext current_context();

// Checks that a context of this device is current.
CUresult need_context_of(int device, CUresult otherwise);

bool valid_device(CUdevice device);

// The result of a call for a device, given whether its other arguments are
// right.
CUresult check(bool arguments, CUdevice device);

// Stores the result of a query about a device.
template <typename T>
CUresult give(T *out, CUdevice device, std::type_identity_t<T> value)
{
    CUresult result = check(out, device);
    if (result == CUDA_SUCCESS)
        *out = value;
    return result;
}

// In stream.cc: destroys a context's streams and events. Requires the lock.
void destroy_streams(CUcontext context);

// In pool.cc: frees all memory of a device's pools. Requires the lock.
void clear_pools(int device);

} // namespace ucx_ib_dmabuf::sim
