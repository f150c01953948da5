// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fallbacks.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <sched.h>

namespace ucx_ib_dmabuf {

// What is counted for each NIC and GPU; docs/info.md has the same list.
enum class pair_metric : uint8_t {
    registrations,
    deregistrations,
    invalidations,
    evictions,
    failures,
    regions,
    registered_bytes,
    end // none; how many there are
};

// How bytes that were to be registered went: the steps of the ladder
// (verbs/ladder.h), then what took their place (fallback_way).
enum class memory_path : uint8_t {
    standard,
    pcie,
    peer_memory,
    ucp,
    error,
    end // none; how many there are
};

constexpr auto pair_metric_count = static_cast<size_t>(pair_metric::end);
constexpr auto memory_paths      = static_cast<size_t>(memory_path::end);
constexpr auto ladder_steps      = memory_paths - fallback_ways;

inline constexpr std::array<const char *, memory_paths> memory_path_names{
    "standard", "pcie", "peer_memory", "ucp", "error"};

// A NIC and a GPU. Counts without a lock.
class pair_row {
public:
    using count = std::atomic<uint64_t>;

    count &operator[](pair_metric which)
    {
        return counts_.values[static_cast<size_t>(which)];
    }
    fallback_count<count> &of(fallback_way way, fallback_cause why)
    {
        return counts_
            .fallbacks[static_cast<size_t>(way)][static_cast<size_t>(why)];
    }

    // By a step of the ladder.
    void add_region(memory_path step, uint64_t length) noexcept
    {
        counts_.step_bytes[static_cast<size_t>(step)] += length;
        ++(*this)[pair_metric::registrations];
        ++(*this)[pair_metric::regions];
        (*this)[pair_metric::registered_bytes] += length;
    }
    void end_region(uint64_t length) noexcept
    {
        ++(*this)[pair_metric::deregistrations];
        --(*this)[pair_metric::regions];
        (*this)[pair_metric::registered_bytes] -= length;
    }
    void add_fallback(fallback_way way, fallback_cause why,
                      uint64_t length) noexcept
    {
        ++of(way, why).operations;
        of(way, why).bytes += length;
    }

    // Any bytes; no more than were copied.
    const char *nic() const { return is_named() ? nic_.data() : "others"; }
    int gpu() const { return is_named() ? gpu_ : -1; }
    const auto &values() const { return counts_.values; }
    // By memory_path.
    std::array<uint64_t, memory_paths> bytes() const noexcept
    {
        std::array<uint64_t, memory_paths> all{};
        auto *to = std::ranges::copy(counts_.step_bytes, all.begin()).out;
        for (const auto &way : counts_.fallbacks) {
            for (const auto &each : way) {
                *to += each.bytes;
            }
            ++to;
        }
        return all;
    }
    // Operations, by fallback_cause.
    std::array<uint64_t, fallback_causes> fallbacks() const noexcept
    {
        std::array<uint64_t, fallback_causes> all{};
        for (const auto &way : counts_.fallbacks) {
            for (size_t why = 0; why < fallback_causes; ++why) {
                all[why] += way[why].operations;
            }
        }
        return all;
    }
    bool counts_anything() const noexcept
    {
        const auto counts = [](uint64_t each) { return each != 0; };
        return std::ranges::any_of(counts_.values, counts) ||
               std::ranges::any_of(fallbacks(), counts);
    }

private:
    friend class pair_table;
    enum : int { free, being_named, named };
    struct numbers {
        std::array<count, pair_metric_count> values{};
        std::array<count, ladder_steps> step_bytes{};
        fallback_table<count> fallbacks{};
    };

    bool is_named() const { return state_ == named; }
    bool is(const char *nic, int gpu) const noexcept
    {
        return (gpu_ == gpu) &&
               (strncmp(nic_.data(), nic, nic_.size() - 1) == 0);
    }
    // False: it is another pair's.
    bool take(const char *nic, int gpu) noexcept
    {
        int found = free;
        if (state_.compare_exchange_strong(found, being_named)) {
            memccpy(nic_.data(), nic, '\0', nic_.size() - 1);
            gpu_   = gpu;
            state_ = named;
            return true;
        }
        while (state_ == being_named) {
            sched_yield(); // no lock, which a fork would have to wait for
        }
        return is(nic, gpu);
    }
    void clear() noexcept
    {
        new (&counts_) numbers;
        // Who names it is not in the child of a fork.
        int found = being_named;
        state_.compare_exchange_strong(found, free);
    }

    std::atomic<int> state_{free};
    int gpu_ = 0;
    std::array<char, 64> nic_{}; // IBV_SYSFS_NAME_MAX
    numbers counts_{};
};

// Rows keep their places for as long as the process lives, and take no memory.
class pair_table {
public:
    // Of eight GPUs with sixteen NICs; what is beyond shares the last row.
    static constexpr size_t max_pairs = 128;

    // `gpu`: the vendor's ordinal; -1: not known.
    pair_row &of(const char *nic, int gpu) noexcept
    {
        for (size_t i = 0; i < max_pairs; ++i) {
            if (rows_[i].take(nic, gpu)) {
                return rows_[i];
            }
        }
        return rows_[max_pairs];
    }
    // Those that have counted anything.
    template <typename Call>
    void each(const Call &call) const
    {
        for (const pair_row &row : rows_) {
            if (row.counts_anything()) {
                call(row);
            }
        }
    }
    // Of all rows.
    fallback_counts fallbacks() const noexcept
    {
        fallback_counts all;
        for (size_t way = 0; way < fallback_ways; ++way) {
            for (size_t why = 0; why < fallback_causes; ++why) {
                for (const pair_row &row : rows_) {
                    const auto &each = row.counts_.fallbacks[way][why];
                    all[way][why].operations += each.operations;
                    all[way][why].bytes += each.bytes;
                }
            }
        }
        return all;
    }
    // In the child of a fork.
    void clear() noexcept
    {
        for (pair_row &row : rows_) {
            row.clear();
        }
    }

private:
    std::array<pair_row, max_pairs + 1> rows_{};
};

// The process's.
inline constinit pair_table process_pairs;

} // namespace ucx_ib_dmabuf
