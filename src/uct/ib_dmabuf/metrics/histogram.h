// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace ucx_ib_dmabuf {

// How long something took, in nanoseconds: how many there were up to 2^10, up
// to 2^11 and so on. Without a lock, for what takes microseconds itself.
class histogram {
public:
    static constexpr size_t buckets     = 24;
    static constexpr unsigned first_log = 10; // 1 us; the last but one: 4 s

    struct counts {
        std::array<uint64_t, buckets> each{}; // not those of smaller ones
        uint64_t sum = 0;                     // nanoseconds
    };

    // The largest that a bucket is for; the last one is for all others.
    static uint64_t bound(size_t bucket)
    {
        return uint64_t{1} << (first_log + bucket);
    }

    void add(uint64_t nanoseconds) noexcept
    {
        const size_t power = std::bit_width(std::max<uint64_t>(nanoseconds, 1) -
                                            1); // of the bound
        const size_t bucket =
            std::max<size_t>(power, first_log) - size_t{first_log};

        each_[std::min(bucket, buckets - 1)].fetch_add(
            1, std::memory_order_relaxed);
        sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
    }
    counts read() const noexcept
    {
        counts now;
        for (size_t i = 0; i < buckets; ++i) {
            now.each[i] = each_[i].load(std::memory_order_relaxed);
        }
        now.sum = sum_.load(std::memory_order_relaxed);
        return now;
    }
    void clear() noexcept
    {
        for (auto &each : each_) {
            each = 0;
        }
        sum_ = 0;
    }

private:
    std::array<std::atomic<uint64_t>, buckets> each_{};
    std::atomic<uint64_t> sum_{0};
};

// Of the process: exports of dma-bufs by the GPU's driver and their
// registrations by a NIC, those that succeeded.
inline histogram export_times, registration_times;

// Since some time, for differences. Leaves errno alone.
inline uint64_t nanoseconds_now() noexcept
{
    timespec now{};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(now.tv_nsec);
}

} // namespace ucx_ib_dmabuf
