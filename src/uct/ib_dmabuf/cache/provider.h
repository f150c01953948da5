// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../dmabuf.h"
#include <cstddef>
#include <cstdint>
#include <memory>

// What the cache needs from the world: somebody who knows what is at an
// address and exports it, and somebody who registers (verbs/, md/).
namespace ucx_ib_dmabuf {

// One allocation, or one VMM segment.
struct extent {
    uintptr_t base    = 0;  // first byte
    size_t size       = 0;  // bytes
    uint64_t identity = 0;  // never the same for two extents of a process
    int device        = -1; // the vendor's ordinal
    // A VMM segment: a range may go on in the next one of the same device.
    bool joins = false;
    // Which addresses it is mapped in: an export may not go beyond them. 0: not
    // known.
    uint64_t reservation = 0;
    // It may not be exported by itself: see exporter::export_begin().
    bool in_chunks = false;
};

// Thread-safe; called without any lock held. None needs a current context. Both
// classes' contracts are checked in test/gtest/contract.
class exporter {
public:
    virtual ~exporter() = default;

    // What is at the address. UCS_ERR_NO_ELEM: no device memory (host or
    // managed memory, released, another process's).
    virtual ucs_status_t describe(uintptr_t address, extent *out) = 0;

    // For several questions of the calling thread's about memory of one GPU, of
    // which the address is some: what they have in common is brought about
    // once, and ends with what is returned. nullptr: there is nothing.
    struct session {
        virtual ~session() = default;
    };
    virtual std::unique_ptr<session> begin(uintptr_t) { return nullptr; }

    // Whether the address still belongs to that identity: one cheap driver
    // call.
    virtual bool is_current(uintptr_t address, uint64_t identity) = 0;

    // Where an export of memory in chunks has to begin that holds the address,
    // which is aligned to granularity(): there, or before.
    virtual uintptr_t export_begin(uintptr_t address) { return address; }
    // How many bytes that is before the address.
    size_t before(uintptr_t address, bool in_chunks)
    {
        return in_chunks ? address - export_begin(address) : 0;
    }
    // A dma-buf of the range, which is aligned to granularity(), else refused;
    // it begins at `address`. The caller owns the fd, which is set on success
    // only, close-on-exec.
    virtual ucs_status_t export_range(uintptr_t address, size_t length,
                                      int *fd) = 0;
    // The same in PCIe mapping. UCS_ERR_UNSUPPORTED, which is no warning: this
    // memory has the standard one only.
    virtual ucs_status_t export_range_pcie(uintptr_t, size_t, int *)
    {
        return UCS_ERR_UNSUPPORTED;
    }

    // Alignment of exports in bytes: the host's page size.
    virtual size_t granularity() const = 0;
};

// Why a registration ends that somebody may want to know of.
enum class ending : uint8_t { released, evicted };

// One NIC (one protection domain). Thread-safe; called without any lock held.
class registrar {
public:
    virtual ~registrar() = default;

    // Registers [address, address + length), so that the NIC reaches it under
    // the GPU's addresses. It is in the source's dma-bufs, from its offset()
    // on; the NIC asks for one in the mapping that suits it and the GPU
    // (extent::device), and needs none afterwards. A range beyond the dma-buf
    // and an empty one are refused. The handle is opaque to the cache, and set
    // on success only.
    virtual ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                             size_t length, void **handle) = 0;
    virtual void dereg(void *handle)                       = 0;

    // For counting only: one of the GPU's is about to be deregistered.
    virtual void count_end(int, ending) noexcept {}

    // Users keep regions for later operations, in a cache of theirs: that they
    // have one does not mean that an operation is under way. Asks them to give
    // back what they keep of the range, which they may do as late as before
    // they use anything else they keep. Also called while an event of memory
    // is told.
    virtual void let_go(uintptr_t, size_t) {}
};

inline bool lacks_room(ucs_status_t status)
{
    return status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT;
}

// No failure, or a word that the cache's functions have among each other: an
// exporter or a registrar that answers so has failed.
inline ucs_status_t as_answer(ucs_status_t status)
{
    return status == UCS_INPROGRESS || status == UCS_ERR_CANCELED
               ? UCS_ERR_IO_ERROR
               : status;
}

} // namespace ucx_ib_dmabuf
