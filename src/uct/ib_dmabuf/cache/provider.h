// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_PROVIDER_H_
#define UCX_IB_DMABUF_CACHE_PROVIDER_H_

#include <cstddef>
#include <cstdint>
#include <ucs/type/status.h>

// What the cache needs from the world: somebody who knows what is at an
// address and exports it (cuda/), and somebody who registers (verbs/, md/).
namespace ucx_ib_dmabuf {

// One allocation, or one contiguous run of VMM segments.
struct extent {
    uintptr_t base    = 0;  // first byte
    size_t size       = 0;  // bytes
    uint64_t identity = 0;  // never the same for two allocations of a process
    int device        = -1; // CUDA ordinal
    int memory_type   = 0;  // ucs_memory_type_t
    bool exportable   = false;
};

// Thread-safe; called without any lock held. None needs a current context. Both
// classes' contracts are checked in test/gtest/contract.
class exporter {
public:
    virtual ~exporter() = default;

    // What is at the range. UCS_ERR_NO_ELEM: at its first address is no device
    // memory (host memory, released, another process's).
    // UCS_ERR_INVALID_PARAM: the range is empty, or leaves its allocation into
    // another one, its neighbour, or into nothing. UCS_ERR_UNSUPPORTED:
    // device memory that cannot be exported (managed, say).
    virtual ucs_status_t describe(uintptr_t address, size_t length,
                                  extent *out) = 0;

    // Whether every byte of the range, which describe() gave or is a part of
    // one allocation, still belongs to that identity: one cheap driver call.
    virtual bool is_current(uintptr_t address, size_t length,
                            uint64_t identity) = 0;

    // A dma-buf of the range, which is aligned to granularity(), else refused.
    // The caller owns the fd, which is set on success only, close-on-exec. The
    // offset is where `address` lies in the dma-buf.
    virtual ucs_status_t export_range(uintptr_t address, size_t length, int *fd,
                                      size_t *offset) = 0;

    // Alignment of exports in bytes: the host's page size.
    virtual size_t granularity() const = 0;
};

// One NIC (one protection domain). Thread-safe; called without any lock held.
class registrar {
public:
    virtual ~registrar() = default;

    // Registers [address, address + length), which lies at `offset` in the
    // dma-buf, so that the NIC reaches it under the GPU's addresses. The fd
    // stays the caller's, and is not needed afterwards. A range beyond the
    // dma-buf and an empty one are refused. The handle is opaque to the cache,
    // and set on success only.
    virtual ucs_status_t reg(int fd, size_t offset, uintptr_t address,
                             size_t length, void **handle) = 0;
    virtual void dereg(void *handle)                       = 0;
};

} // namespace ucx_ib_dmabuf

#endif
