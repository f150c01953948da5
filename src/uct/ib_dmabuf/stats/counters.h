// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

namespace ucx_ib_dmabuf {

// A label and its values; a metric without that label has one value.
struct metric_label {
    const char *name = "";
    std::array<std::string_view, 7> values{""};

    constexpr size_t count() const
    {
        size_t count = 1;
        while ((count < values.size()) && !values[count].empty()) {
            ++count;
        }
        return count;
    }
};

struct metric_info {
    std::string_view name; // Prometheus' name, without prefix and ending
    // As Prometheus names it: a "counter" since the process started, or forked,
    // or a "gauge" now.
    std::string_view kind;
    const char *help; // a line
    metric_label label{}, inner{};
    size_t at = 0; // index of the first number; the next ones follow, those of
                   // the inner label adjacent

    constexpr size_t size() const { return label.count() * inner.count(); }
    // The values of a number's labels; "" for a label that there is not.
    constexpr std::pair<const char *, const char *> labels(size_t i) const
    {
        return {label.values[i / inner.count()].data(),
                inner.values[i % inner.count()].data()};
    }
};

// Values of labels, in the order of the enums. A mapping (gpu/exporter.h) is
// the path of that number.
enum class fallback_way : uint8_t { peer_memory, ucp, error };
enum class fallback_cause : uint8_t { unsupported, no_room, busy, other };
constexpr metric_label by_way{"way", {"peer_memory", "ucp", "error"}};
constexpr metric_label by_cause{"cause",
                                {"unsupported", "no_room", "busy", "other"}};
constexpr metric_label by_path{"path", {"standard", "pcie"}};
constexpr metric_label by_time{
    "up_to", {"10us", "100us", "1ms", "10ms", "100ms", "1s", "longer"}};

// The first metrics are also those of each pair of a NIC and a GPU;
// Prometheus' names of these begin with "pair_".
constexpr size_t pair_metrics = 10;

// Every metric, as listed in docs/info.md. A new one needs a row here, and a
// call of process_counters.add().
inline constexpr auto metrics = [] {
    auto all  = std::to_array<metric_info>({
         {"registrations", "counter",
          "Registrations of dma-bufs that succeeded, one per NIC"},
         {"deregistrations", "counter", "Registrations that ended"},
         {"invalidations", "counter",
          "Registrations that left the cache as their memory was released"},
         {"evictions", "counter", "Registrations that made room for others"},
         {"failures", "counter", "Registrations that failed, one per NIC"},
         {"regions", "gauge", "Registrations that are kept"},
         {"registered_bytes", "gauge",
          "Registered GPU memory, counted for each NIC"},
         {"path_bytes", "counter",
          "Bytes that were registered, by the GPU's mapping", by_path},
         {"fallback_operations", "counter",
          "Requests to register GPU memory that went another way", by_way,
          by_cause},
         {"fallback_bytes", "counter", "Length of these requests in bytes",
          by_way, by_cause},
         {"hits", "counter", "Lookups that found a registration"},
         {"misses", "counter", "Lookups of GPU memory that had to register"},
         {"exports", "counter", "dma-bufs that the GPU's driver exported"},
         {"identity_checks", "counter",
          "Times that the driver was asked whether memory is still the same"},
         {"identity_misses", "counter",
          "Checks that found other memory, whose release was not seen"},
         {"atomics", "counter", "Atomic operations on GPU memory done for UCP"},
         {"prefetches", "counter",
          "Registrations of new GPU memory before its first use"},
         {"prefetches_unused", "counter",
          "Those of memory that was released before any use"},
         {"proofs", "counter", "Proofs of a path between a NIC and a GPU"},
         {"refuted", "counter", "Paths that did not carry what was sent"},
         {"mapped_bytes", "gauge",
          "Registered GPU memory, counted once for all NICs"},
         {"hooks_complete", "gauge",
          "1: every release of GPU memory is seen; 0: each use asks the driver"},
         {"export_time", "counter", "Exports of dma-bufs, by their time",
          by_time},
         {"registration_time", "counter",
          "Registrations of dma-bufs, by their time", by_time},
    });
    size_t at = 0;
    for (metric_info &each : all) {
        each.at = at;
        at += each.size();
    }
    return all;
}();

// The number of numbers of the first metrics. Uses a copy of the table: to
// gcc's UBSan the address of an inline variable may be null.
consteval size_t count_numbers(size_t of = metrics.size())
{
    const auto table = metrics;
    return table[of - 1].at + table[of - 1].size();
}

// Numbers that any thread may count, without a lock and without memory.
template <size_t count>
struct number_table {
    // A metric by its name, which the compiler looks up.
    struct metric {
        size_t at;

        consteval metric(const char *name)
        {
            const auto table = metrics; // see count_numbers()
            const auto found = std::ranges::find(table, std::string_view(name),
                                                 &metric_info::name);
            at               = found->at; // an unknown name does not compile
            if (at >= count) {
                throw "a metric of processes only";
            }
        }
    };

    uint64_t numbers[count];

    // `label`: index among the metric's numbers.
    void add(metric which, uint64_t more = 1, size_t label = 0) noexcept
    {
        __atomic_fetch_add(&numbers[which.at + label], more, __ATOMIC_RELAXED);
    }
    void subtract(metric which, uint64_t less) noexcept
    {
        add(which, 0 - less);
    }
    void set(metric which, uint64_t value) noexcept
    {
        __atomic_store_n(&numbers[which.at], value, __ATOMIC_RELAXED);
    }
    uint64_t get(metric which, size_t label = 0) const noexcept
    {
        return get_at(which.at + label);
    }
    uint64_t get_at(size_t index) const noexcept
    {
        return __atomic_load_n(&numbers[index], __ATOMIC_RELAXED);
    }
    bool is_zero() const noexcept
    {
        return std::ranges::none_of(numbers, [](const uint64_t &each) {
            return __atomic_load_n(&each, __ATOMIC_RELAXED) != 0;
        });
    }
    void clear() noexcept
    {
        for (uint64_t &each : numbers) {
            __atomic_store_n(&each, 0, __ATOMIC_RELAXED);
        }
    }
    void add_time(metric which, uint64_t nanoseconds) noexcept
    {
        size_t label = 0;
        for (uint64_t most = 10'000;
             (nanoseconds > most) && (label + 1 < by_time.count());
             most *= 10) {
            ++label;
        }
        add(which, 1, label);
    }
};

// FNV-1a.
constexpr uint64_t hash_of(uint64_t before, std::string_view text)
{
    for (const char each : text) {
        before = (before ^ static_cast<unsigned char>(each)) * 0x100000001b3;
    }
    return before;
}

// Text in memory that other processes may read, or have forged.
template <size_t size>
struct shared_text {
    char bytes[size];

    // Sets it, unless it is set. Stores the first byte last.
    void set(std::string_view text) noexcept
    {
        if (__atomic_load_n(bytes, __ATOMIC_ACQUIRE) == '\0') {
            for (size_t i = std::min(text.size(), size - 1); i-- > 0;) {
                __atomic_store_n(&bytes[i], text[i], __ATOMIC_RELEASE);
            }
        }
    }
    operator std::string_view() const noexcept
    {
        const bool is_set = __atomic_load_n(bytes, __ATOMIC_ACQUIRE) != '\0';
        return {bytes, is_set ? strnlen(bytes, size) : 0};
    }
};

struct pair_row : number_table<count_numbers(pair_metrics)> {
    uint64_t key;        // a hash of NIC and GPU; 0: the row is free
    shared_text<64> nic; // IBV_SYSFS_NAME_MAX
    int gpu;             // the driver's ordinal; -1: not known

    void add_region(size_t path, uint64_t length) noexcept
    {
        add("path_bytes", length, path);
        add("registrations");
        add("regions");
        add("registered_bytes", length);
    }
    void end_region(uint64_t length) noexcept
    {
        add("deregistrations");
        subtract("regions", 1);
        subtract("registered_bytes", length);
    }
};

// The largest page size of a kernel.
#ifdef __x86_64__
constexpr size_t max_page_size = 4 << 10;
#else
constexpr size_t max_page_size = 64 << 10;
#endif

// The counters of a process: whole pages without pointers, which other
// processes can map (live_page.h).
struct alignas(max_page_size) counters : number_table<count_numbers()> {
    static constexpr uint64_t right_layout = [] {
        uint64_t hash    = hash_of(pair_metrics, "ucx-ib-dmabuf");
        const auto table = metrics; // see count_numbers()
        for (const metric_info &info : table) {
            hash = hash_of(hash + info.size(), info.name);
            for (const metric_label &label : {info.label, info.inner}) {
                for (const std::string_view value : label.values) {
                    hash = hash_of(hash, value);
                }
            }
        }
        return hash;
    }();
    // For eight GPUs with sixteen NICs; further pairs share the last row.
    static constexpr size_t max_pairs = 128;

    uint64_t layout, pid; // of live_page.h, also the next ones
    uint32_t wants_room, gave_room;
    shared_text<256> hooks_missing; // the first reason
    pair_row pairs[max_pairs + 1];

    // The row is valid for as long as the process lives.
    pair_row &of(std::string_view nic, int gpu) noexcept;
    void add_fallback(fallback_way way, fallback_cause why, const char *nic,
                      int gpu, uint64_t length) noexcept;
    // For a forked child, which has its parent's hooks.
    void clear() noexcept
    {
        const uint64_t complete = get("hooks_complete");

        number_table::clear();
        set("hooks_complete", complete);
        for (pair_row &row : pairs) {
            row.clear();
        }
    }
    // Calls `call` with each row that has counted anything.
    template <typename Call>
    void each_pair(const Call &call) const
    {
        for (const pair_row &row : pairs) {
            if (!row.is_zero()) {
                call(row);
            }
        }
    }
};

using process_metric = counters::metric;
using pair_metric    = pair_row::metric;

inline constinit counters process_counters{};

// Monotonic time, for differences. Does not change errno.
inline uint64_t nanoseconds_now() noexcept
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(now.tv_nsec);
}

} // namespace ucx_ib_dmabuf
