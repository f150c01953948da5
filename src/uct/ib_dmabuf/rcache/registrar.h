// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>

namespace ucx_ib_dmabuf {

// The reasons of a deregistration that are counted.
enum class ending : uint8_t { released, evicted };

// A NIC (a protection domain). Thread-safe; called without any lock held, but
// for name().
class registrar {
public:
    virtual ~registrar() = default;

    // The device's name. Several NICs of a process may be of one device.
    virtual const char *name() const noexcept { return ""; }

    // Registers [address, address + length), so that the NIC reaches it under
    // the GPU's addresses. The memory is in the exported dma-bufs, from
    // offset() on. The NIC requests one in the mapping that suits it and the
    // GPU (allocation::device), and needs none afterwards. Refuses an empty
    // range and one beyond the dma-buf. The handle is opaque to the cache, and
    // set on success only.
    virtual ucs_status_t reg(dmabuf_exports &memory, int gpu, uintptr_t address,
                             size_t length, void **handle) = 0;
    virtual void dereg(void *handle)                       = 0;

    // For counting only: one of the GPU's is about to be deregistered.
    virtual void count_end(int, ending) noexcept {}

    // Users may cache regions for later operations, so a region with users need
    // not have an operation under way. Asks users to drop their cached regions
    // of the range. They may do so as late as before their next use of that
    // cache. Also called during memory events.
    virtual void drop_from_ucp_cache(uintptr_t, size_t) {}
};

} // namespace ucx_ib_dmabuf
