// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <ucm/cuda_api.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// NVIDIA's libcuda and NVML, both opened at run time.
struct driver : driver_table {
    // Opens libcuda.so.1 once. Returns nullptr if there is no libcuda, driver
    // or GPU; the next call tries again then, as libraries may be opened late.
    // Never closed. Thread-safe. Calls cuInit() if `starts`: a child forked
    // after that cannot use CUDA. Else, until the program calls it, NVML
    // detects GPUs, and functions fail.
    static const driver *get(bool starts = false);
    // Whether the program has called cuInit() in this process.
    bool is_initialized() const;

    // Whether the GPU's primary context is active.
    bool is_active(CUdevice device) const;
    // Returns the first GPU from this one on that is in use: it has an active
    // primary context, or is this device; -1 if there is none.
    int next_in_use(int gpu, CUdevice current = -1) const;
    // Returns 0 if the driver does not report it.
    int attribute(CUdevice device, CUdevice_attribute which) const;
    // Whether the GPU has a coherent link to the host: NICs do not need BAR1
    // then, except for Data Direct.
    bool is_coherent(CUdevice device) const;
    // Reads a GPU's PCI address, as "0000:C1:00.0". Returns false if the driver
    // does not report it.
    bool read_pci_address(int gpu, char (&address)[32]) const;

    // "CUDA_ERROR_NOT_SUPPORTED (801)"
    text error(CUresult result) const;

    // Reports a failed call for a range of device memory: as a warning, the
    // first time that it fails so. Temporary errors are debug messages. Returns
    // to_status().
    ucs_status_t failed(const char *call, CUresult result, uintptr_t address,
                        size_t length, const char *remedy) const;
};

// The status that UCX gets for a driver error. UCS_ERR_BUSY: a temporary error
// of the calling thread or a capture; it does not depend on the memory.
ucs_status_t to_status(CUresult result);

// In bytes, from NVML (nvmlBAR1Memory_t; its ABI is fixed).
struct bar1_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

// Reads the size and use of BAR1, through which NICs reach a GPU. Returns false
// if NVML does not report them. Thread-safe; calls the dynamic loader.
bool read_bar1(const char *pci_address, bar1_memory *memory);

} // namespace ucx_ib_dmabuf
