// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// What a UCX without CUDA lacks to use GPU memory: it is asked what is at an
// address, and copies what UCX does not send as it is. Lives for good.
// Thread-safe; called with no lock held, except begin() in UCX's own.
class memory_copier {
public:
    struct found {
        ucs_memory_type_t type;
        uintptr_t base; // of the allocation, if it is known
        size_t length;
        bool lasts = false; // its release will be told: it may be remembered
        int gpu    = -1;    // the vendor's ordinal, if it is known
    };
    // As UCX has it: ucs_sys_bus_id_t.
    struct pci_address {
        uint16_t domain;
        uint8_t bus;
        uint8_t slot;
        uint8_t function;
    };

    // Whether there may be a GPU. The first question; never starts its driver.
    virtual bool has_gpu() noexcept = 0;
    // UCX is going to use it, by this copy's cache of memory types: from now on
    // that is told of all GPU memory, also of what was there before. False:
    // some may come unseen, so what the cache does not know need not be the
    // host's.
    virtual bool begin() noexcept = 0;
    // UCS_ERR_INVALID_ADDR: none of the GPU's.
    virtual ucs_status_t detect(uintptr_t address, size_t length,
                                found *out) noexcept = 0;
    // Where a GPU is among the machine's devices; false if that is not known.
    virtual bool place(int gpu, pci_address *out) noexcept = 0;
    // Returns when the bytes are there. Either may be the host's; `gpu` is the
    // one that is more likely the GPU's. Failures are logged.
    virtual ucs_status_t copy(void *to, const void *from, size_t length,
                              const void *gpu) noexcept = 0;

protected:
    ~memory_copier() = default;
};

// Null as long as there is nothing to copy with in this machine.
using find_copier = memory_copier *(*)();

} // namespace ucx_ib_dmabuf
