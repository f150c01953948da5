// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_METRICS_FALLBACKS_H_
#define UCX_IB_DMABUF_METRICS_FALLBACKS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// What became of GPU memory that the plug-in was asked to register, and did
// not.
enum class fallback_way : uint8_t {
    peer_memory, // uct_ib was asked to, by a peer memory module
    ucp,         // UCP was told, and has another protocol
    staged,      // a copy in host memory, for this one operation
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
    "peer_memory", "ucp", "staged", "error"};
inline constexpr std::array<const char *, fallback_causes> fallback_cause_names{
    "unsupported", "no_room", "busy", "other"};

struct fallback_count {
    uint64_t operations = 0, bytes = 0;
};
using fallback_counts =
    std::array<std::array<fallback_count, fallback_causes>, fallback_ways>;

// Without a lock.
class fallbacks {
public:
    void add(fallback_way way, fallback_cause why, uint64_t bytes) noexcept
    {
        slot &here = all_[static_cast<size_t>(way)][static_cast<size_t>(why)];
        here.operations.fetch_add(1, std::memory_order_relaxed);
        here.bytes.fetch_add(bytes, std::memory_order_relaxed);
    }
    fallback_counts read() const noexcept
    {
        fallback_counts now;
        for (size_t way = 0; way < fallback_ways; ++way) {
            for (size_t why = 0; why < fallback_causes; ++why) {
                now[way][why] = {
                    all_[way][why].operations.load(std::memory_order_relaxed),
                    all_[way][why].bytes.load(std::memory_order_relaxed)};
            }
        }
        return now;
    }
    void clear() noexcept
    {
        for (auto &way : all_) {
            for (slot &each : way) {
                each.operations = each.bytes = 0;
            }
        }
    }

private:
    struct slot {
        std::atomic<uint64_t> operations{0}, bytes{0};
    };
    std::array<std::array<slot, fallback_causes>, fallback_ways> all_{};
};

} // namespace ucx_ib_dmabuf

#endif
