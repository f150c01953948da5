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
    CUctx_st(int its_device, bool is_primary)
        : device(its_device), primary(is_primary),
          heap(its_device, ucx_ib_dmabuf::sim::Kind::device,
               ucx_ib_dmabuf::sim::block_size)
    {
    }

    const int device;
    const bool primary;
    uint64_t id = 0;
    std::atomic<bool> alive{false};
    unsigned flags    = 0;
    uint64_t retained = 0;                        // references to a primary one
    ucx_ib_dmabuf::sim::Heap heap;                // small allocations
    std::set<ucx_ib_dmabuf::sim::Block *> blocks; // large ones
};

namespace ucx_ib_dmabuf::sim {

// All contexts ever made. Requires the lock.
struct Contexts {
    Contexts();

    std::set<CUcontext> all;
    std::vector<CUcontext> primary; // by device
    uint64_t last_id = 0;
};
Contexts &contexts();

CUcontext current_context();

// As above; returns an error if there is none or it is destroyed.
CUresult need_context(CUcontext *context);

// Checks that a context of this device is current, if a setting demands it.
CUresult need_context_of(int device, CUresult otherwise);

// The result for an address without memory: CUDA_SIM_GONE's code if its context
// or the current one was destroyed. Requires the lock.
CUresult unknown_address(CUdeviceptr address, CUresult otherwise);

// Whether 'context' is one, alive or not. Requires the lock.
bool is_context(CUcontext context);

// Ends a context and frees all that was allocated in it. Pool memory and VMM
// memory belong to the device. Requires the lock.
void release_resources(CUcontext context);

bool valid_device(CUdevice device);

// In stream.cc: destroys a context's streams and events. Requires the lock.
void destroy_streams(CUcontext context);

// In pool.cc: frees all memory of a device's pools. Requires the lock.
void clear_pools(int device);

} // namespace ucx_ib_dmabuf::sim
