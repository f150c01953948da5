// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <uct/ib_dmabuf/report.h>

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

// An operation of a NIC between local memory (by its lkey) and remote memory
// (by its rkey). An atomic one adds 1.
struct transfer {
    verb what;
    place local, remote;
    uint32_t length;
};

// Carries transfers in order. For one thread.
class wire {
public:
    static constexpr size_t max_transfers = 16; // at a time

    virtual ~wire() = default;

    virtual bool has_atomics() const = 0;

    // Returns when all are complete: nullopt if they succeeded, else the error,
    // after which the wire carries nothing.
    virtual std::optional<text> carry(std::span<const transfer> all) = 0;
    // Whether the error is a timeout: a busy NIC may answer later.
    virtual bool is_silent() const = 0;
};

// A new wire, or null and the reason.
struct connection {
    std::unique_ptr<wire> by;
    const char *problem;
};
using connector = std::function<connection()>;

} // namespace ucx_ib_dmabuf
