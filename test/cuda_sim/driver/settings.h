// SPDX-License-Identifier: BSD-3-Clause
//
// What the environment says about the simulated machine
// (docs/simulated-gpu.md).
#pragma once

#include <cstdint>
#include <cuda.h>
#include <string>

namespace ucx_ib_dmabuf::sim {

struct Settings {
    uint64_t devices        = 2;
    uint64_t memory_bytes   = 80ull << 30;  // per device
    uint64_t bar1_bytes     = 128ull << 30; // per device
    uint64_t driver_version = 0;
    // Of stream-ordered memory: ranges that begin with a chunk, all, or none.
    enum { chunk, all, none } pool_export = chunk;
    bool incapable_export = true;  // memory without gpuDirectRDMACapable, too
    bool coherent         = false; // a coherent link to the host
    // Where reports leave two behaviours open, the harder one is played.
    bool needs_context     = true; // address ranges and exports
    bool range_reservation = true; // RANGE_* are the reservation's of a mapping
    bool strict_capture    = true; // queries are unsafe while a stream captures
    CUresult gone          = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    bool dmabuf            = true; // the driver supports dma-bufs
    std::string stats_file;
    // The kernel's list of all dma-bufs.
    std::string dmabuf_list = "/sys/kernel/debug/dma_buf/bufinfo";
};

// Read once, at the first call; wrong settings give an error line and keep
// their default.
const Settings &settings();

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace ucx_ib_dmabuf::sim
