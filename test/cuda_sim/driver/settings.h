// SPDX-License-Identifier: BSD-3-Clause
//
// Settings of the simulated machine, from the environment
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
    // Exports of stream-ordered memory: from the start of a chunk, all, none.
    enum { chunk, all, none } pool_export = chunk;
    bool incapable_export = true;  // also without gpuDirectRDMACapable
    bool coherent         = false; // a coherent link to the host
    // If reports leave two behaviours open, the harder one is the default.
    bool needs_context     = true; // for address ranges and exports
    bool range_reservation = true; // RANGE_* of a mapping are its reservation's
    bool strict_capture    = true; // queries are unsafe while a stream captures
    CUresult gone          = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    bool dmabuf            = true; // the driver supports dma-bufs
    std::string stats_file;
    // The kernel's list of all dma-bufs.
    std::string dmabuf_list = "/sys/kernel/debug/dma_buf/bufinfo";
};

// Read once, at the first call. A wrong setting causes an error line, and the
// default is used.
const Settings &settings();

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace ucx_ib_dmabuf::sim
