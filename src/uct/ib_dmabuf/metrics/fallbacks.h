// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// What became of GPU memory that the plug-in was asked to register, and did
// not.
enum class fallback_way : uint8_t {
    peer_memory, // uct_ib was asked to, by a peer memory module
    ucp,         // UCP was told, and has another protocol
    error,       // UCP was told, and has none
    end          // none; how many there are
};

// Why.
enum class fallback_cause : uint8_t {
    unsupported, // by the memory, the GPU, the NIC or the path between them
    no_room,     // in BAR1, in UCX_IB_DMABUF_MAX_SIZE or in the host's memory
    busy,        // the NIC failed meanwhile
    other,       // of the driver's and the NIC's errors; see the warnings
    end          // none; how many there are
};

constexpr auto fallback_ways   = static_cast<size_t>(fallback_way::end);
constexpr auto fallback_causes = static_cast<size_t>(fallback_cause::end);

inline constexpr std::array<const char *, fallback_ways> fallback_way_names{
    "peer_memory", "ucp", "error"};
inline constexpr std::array<const char *, fallback_causes> fallback_cause_names{
    "unsupported", "no_room", "busy", "other"};

template <typename Number>
struct fallback_count {
    Number operations{0}, bytes{0};
};
// By way and cause.
template <typename Number>
using fallback_table =
    std::array<std::array<fallback_count<Number>, fallback_causes>,
               fallback_ways>;
using fallback_counts = fallback_table<uint64_t>;

} // namespace ucx_ib_dmabuf
