// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts. Guarded by the lock of Memory, except for what is atomic.
#pragma once

#include "memory.h"

#include <atomic>
#include <cuda.h>
#include <set>

// Contexts are never deleted, so that a stale handle is an error and not a
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
    uint64_t retained = 0;                        // primary contexts
    ucx_ib_dmabuf::sim::Heap heap;                // small allocations
    std::set<ucx_ib_dmabuf::sim::Block *> blocks; // large ones
};

namespace ucx_ib_dmabuf::sim {

// All contexts that ever were. Wants the lock.
struct Contexts {
    Contexts();

    std::set<CUcontext> all;
    std::vector<CUcontext> primary; // by device
    uint64_t last_id = 0;
};
Contexts &contexts();

CUcontext current_context();

// As above; fails where there is none or it is destroyed.
CUresult need_context(CUcontext *context);

// As CUDA_SIM_NEEDS_CONTEXT says: whether a context of this device is current.
CUresult need_context_of(int device, CUresult otherwise);

// What is said of an address where there is nothing: CUDA_SIM_GONE's code where
// a context ended. Wants the lock.
CUresult unknown_address(CUdeviceptr address, CUresult otherwise);

// Whether 'context' is one, alive or not. Wants the lock.
bool is_context(CUcontext context);

// End a context, and everything that was allocated in it. Pool memory and VMM
// memory belong to the device. Wants the lock.
void release_resources(CUcontext context);

bool valid_device(CUdevice device);

// In stream.cc: streams and events of a context go with it. Wants the lock.
void destroy_streams(CUcontext context);

// In pool.cc: the pools of a device lose their memory. Wants the lock.
void clear_pools(int device);

} // namespace ucx_ib_dmabuf::sim
