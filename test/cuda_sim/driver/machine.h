// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated machine, which libcuda and libnvidia-ml share: its settings,
// from the environment (docs/lab.md), and its GPUs' BAR1.
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
    bool gb200    = false; // a node of that kind: two sockets, four GPUs
    bool coherent = false; // a coherent link to the host
    bool dmabuf   = true;  // the driver supports dma-bufs
    bool ipc_all  = false; // other processes' IPC handles can be opened
    std::string stats_file;
    // The kernel's list of all dma-bufs.
    std::string dmabuf_list = "/sys/kernel/debug/dma_buf/bufinfo";
};

// Read once, at the first call. A wrong setting causes an error line, and the
// default is used.
const Settings &settings();

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The PCI address of a GPU: from 0000:c0:00.0 on, as no small machine has these
// buses; in a GB200 node each GPU has a PCI domain of its own.
struct PciPlace {
    unsigned domain, bus;
};
PciPlace place_of(int device);

// The name of a GPU's memory file and dma-bufs.
std::string gpu_name(int device);

// BAR1 is the window through which a NIC reaches a GPU's memory. With the real
// driver a dma-buf uses it while it is attached. Attachments are not visible
// here, so every existing dma-buf uses it. The kernel lists dma-bufs in its
// debug file system. If the list cannot be read, each export is compared with
// the whole window by itself.
uint64_t bar1_used(int device);
uint64_t bar1_free(int device);

} // namespace ucx_ib_dmabuf::sim
