// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_PROVE_WIRE_H_
#define UCX_IB_DMABUF_PROVE_WIRE_H_

#include "../report.h"
#include <cstdint>
#include <optional>
#include <span>

namespace ucx_ib_dmabuf {

enum class verb : uint8_t { write, read, fetch_add };

// Registered memory.
struct place {
    uint64_t address;
    uint32_t lkey, rkey;

    place operator+(uint64_t offset) const
    {
        return {address + offset, lkey, rkey};
    }
};

// An operation of a NIC's, between memory that it reaches by the local key and
// memory that it reaches by the remote one. An atomic one adds 1.
struct transfer {
    verb what;
    place local, remote;
    uint32_t length;
};

// What a NIC carries them over, in order. For one thread.
class wire {
public:
    static constexpr size_t max_transfers = 16; // at a time

    // Returns when all are over. Nothing: the NIC says that they went well;
    // else what it says, which is the last that is carried.
    virtual std::optional<text> carry(std::span<const transfer> all) = 0;

protected:
    ~wire() = default;
};

} // namespace ucx_ib_dmabuf

#endif
