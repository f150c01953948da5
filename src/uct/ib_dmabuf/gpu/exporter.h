// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// More GPUs than any machine has; further ones share the last place of tables.
constexpr int max_gpus = 64;
// The place of an allocation::device in a table.
constexpr int gpu_index(int device)
{
    return device < 0 || device >= max_gpus ? max_gpus - 1 : device;
}

// How a NIC reaches the memory behind a dma-buf. `standard` is the exporter's
// choice: the coherent link if the GPU has one, else PCIe. `pcie` is PCIe.
enum class mapping_type : uint8_t { standard, pcie };

// An allocation, or a VMM segment.
struct allocation {
    uintptr_t base    = 0;  // first byte
    size_t size       = 0;  // bytes
    uint64_t identity = 0;  // unique among all of a process
    int device        = -1; // the driver's ordinal
    // A VMM segment: a range may continue in the next one of the same device.
    bool joins = false;
    // Identifies the reserved addresses: an export may not leave them. 0: not
    // known.
    uint64_t reservation = 0;
    // An export has to begin at exporter::export_begin().
    bool in_chunks = false;
};

// Thread-safe; called without any lock held, with or without a current context.
// test/gtest/contract checks its contract.
class exporter {
public:
    virtual ~exporter() = default;

    // Describes the memory at the address. UCS_ERR_NO_ELEM: no device memory
    // (host or managed memory, released, or another process's).
    virtual ucs_status_t describe(uintptr_t address, allocation *out) = 0;

    // As describe(), for memory that is freed as a whole, by its first address.
    // UCS_ERR_UNSUPPORTED: it is of another kind. Creates no context.
    virtual ucs_status_t describe_whole(uintptr_t address, allocation *out)
    {
        return describe(address, out);
    }

    // For several calls of one thread about memory of one GPU, that at the
    // address. Sets up their common state once, until the result is destroyed.
    // May throw std::bad_alloc.
    virtual std::shared_ptr<void> begin(uintptr_t) { return nullptr; }

    // Keeps the context of the memory at the address, if others share it, until
    // the result is destroyed: then it may end.
    virtual std::shared_ptr<void> keep_context(uintptr_t) { return nullptr; }

    // Whether the address still has that identity: one cheap driver call.
    virtual bool is_current(uintptr_t address, uint64_t identity) = 0;

    // Returns the start of an export of memory in chunks that contains the
    // address, which is aligned to granularity(): there, or before.
    virtual uintptr_t export_begin(uintptr_t address) { return address; }
    // The number of bytes from that start to the address.
    size_t before(uintptr_t address, bool in_chunks)
    {
        return in_chunks ? address - export_begin(address) : 0;
    }
    // Exports the range, which has to be aligned to granularity(), as a dma-buf
    // that begins at `address`. Sets the fd on success only, close-on-exec; the
    // caller owns it.
    virtual ucs_status_t export_range(uintptr_t address, size_t length,
                                      int *fd) = 0;
    // As export_range(), in PCIe mapping. UCS_ERR_UNSUPPORTED, which needs no
    // warning: this memory has only the standard mapping.
    virtual ucs_status_t export_range_pcie(uintptr_t, size_t, int *)
    {
        return UCS_ERR_UNSUPPORTED;
    }

    // Alignment of exports in bytes: the host's page size.
    virtual size_t granularity() const = 0;
};

inline bool lacks_room(ucs_status_t status)
{
    return status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT;
}

// Replaces a status that the cache's functions reserve for each other: an
// exporter or a registrar that returns it has failed.
inline ucs_status_t as_answer(ucs_status_t status)
{
    return status == UCS_INPROGRESS || status == UCS_ERR_CANCELED
               ? UCS_ERR_IO_ERROR
               : status;
}

} // namespace ucx_ib_dmabuf
