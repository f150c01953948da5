// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <string_view>

namespace ucx_ib_dmabuf {

enum class metric_kind : uint32_t {
    counter,  // since the process started, or forked
    gauge,    // now
    histogram // nanoseconds: 24 buckets, then their sum
};

// The n-th part of a text, or an empty text.
constexpr std::string_view part_of(std::string_view text, char between,
                                   size_t n)
{
    for (; n > 0; --n) {
        const size_t end = text.find(between);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    return text.substr(0, text.find(between));
}

// A metric, as a page describes it.
struct metric_info {
    static constexpr size_t buckets     = 24;
    static constexpr unsigned first_log = 10; // up to 2^10 ns, 2^11 ns, ...

    char name[24]; // Prometheus' name, without prefix and ending
    metric_kind kind;
    char help[80];        // a line
    char labels[72] = ""; // "NAME=VALUE,VALUE;NAME=VALUE,VALUE", or empty
    char json[24] = ""; // JSON's name if it differs; "LIST.KEY" with two labels
    uint64_t at   = 0;  // index of the first number; the next ones follow

    constexpr std::string_view label(size_t which) const
    {
        return part_of(part_of(labels, ';', which), '=', 0);
    }
    constexpr std::string_view values_of(size_t which) const
    {
        return part_of(part_of(labels, ';', which), '=', 1);
    }
    constexpr size_t count_of(size_t which) const
    {
        return 1 +
               static_cast<size_t>(std::ranges::count(values_of(which), ','));
    }
    // The number of values; those of the last label are adjacent.
    constexpr size_t size() const
    {
        return (kind == metric_kind::histogram) ? buckets + 1
                                                : count_of(0) * count_of(1);
    }
    constexpr std::string_view json_name() const
    {
        return (json[0] == '\0') ? name : json;
    }
};

// Calls `call` with each label of a metric's n-th number, and its value.
template <typename Call>
void each_label(const metric_info &of, size_t n, const Call &call)
{
    const size_t inner = of.count_of(1);

    call(of.label(0), part_of(of.values_of(0), ',', n / inner));
    if (!of.label(1).empty()) {
        call(of.label(1), part_of(of.values_of(1), ',', n % inner));
    }
}

// Sets where each metric's numbers are, one behind the other. Returns how many
// numbers there are.
constexpr size_t place_numbers(std::span<metric_info> infos)
{
    size_t end = 0;
    for (metric_info &each : infos) {
        each.at = end;
        end += each.size();
    }
    return end;
}

template <size_t count>
consteval auto metrics(std::array<metric_info, count> infos)
{
    place_numbers(infos);
    return infos;
}

// Every metric of a process, as listed in docs/info.md. A new one needs a row
// here, and a call of process_counters.add(). Rows of one JSON list follow each
// other.
inline constexpr auto process_infos = [] {
    using enum metric_kind;
    return metrics(std::to_array<metric_info>({
        {"hits", counter, "Lookups that found a registration"},
        {"misses", counter, "Lookups of GPU memory that had to register"},
        {"registrations", counter,
         "Registrations of dma-bufs that succeeded, one per NIC"},
        {"deregistrations", counter, "Registrations that ended"},
        {"exports", counter, "dma-bufs that the GPU's driver exported"},
        {"identity_checks", counter,
         "Times that the driver was asked whether memory is still the same"},
        {"identity_misses", counter,
         "Checks that found other memory, whose release was not seen"},
        {"invalidations", counter,
         "Registrations that left the cache as their memory was released"},
        {"evictions", counter, "Registrations that made room for others"},
        {"failures", counter, "Registrations that failed, one per NIC"},
        {"atomics", counter, "Atomic operations on GPU memory done for UCP"},
        {"proofs", counter, "Proofs of a path between a NIC and a GPU"},
        {"refuted", counter, "Paths that did not carry what was sent"},
        {"regions", gauge, "Registrations that are kept"},
        {"registered_bytes", gauge,
         "Registered GPU memory, counted for each NIC"},
        {"mapped_bytes", gauge,
         "Registered GPU memory, counted once for all NICs"},
        {"hooks_complete", gauge,
         "1: every release of GPU memory is seen; 0: each use asks the driver"},
        {"export_time", histogram, "Time that exports of dma-bufs took"},
        {"registration_time", histogram,
         "Time that registrations of dma-bufs took"},
        {"fallback_operations", counter,
         "Requests to register GPU memory that went another way",
         "way=peer_memory,ucp,error;cause=unsupported,no_room,busy,other",
         "fallbacks.operations"},
        {"fallback_bytes", counter, "Length of these requests in bytes",
         "way=peer_memory,ucp,error;cause=unsupported,no_room,busy,other",
         "fallbacks.bytes"},
    }));
}();

// The metrics of a NIC and a GPU; Prometheus' names begin with "pair_".
inline constexpr auto pair_infos = [] {
    using enum metric_kind;
    return metrics(std::to_array<metric_info>({
        {"registrations", counter,
         "Registrations of the GPU's memory by the NIC that succeeded"},
        {"deregistrations", counter, "Those of them that ended"},
        {"invalidations", counter,
         "Those of them that ended as their memory was released"},
        {"evictions", counter,
         "Those of them that ended to make room for others"},
        {"failures", counter, "Registrations that failed"},
        {"regions", gauge, "Registrations that there are"},
        {"registered_bytes", gauge, "Length of these registrations"},
        {"path_bytes", counter,
         "Bytes that were to be registered, by the path that they went",
         "path=standard,pcie,peer_memory,ucp,error"},
        {"fallback_operations", counter,
         "Requests to register them that went another way",
         "cause=unsupported,no_room,busy,other", "fallback_causes"},
    }));
}();

// Values of labels, in the order above. A dma-buf's mapping (gpu/exporter.h) is
// the path of that number; the ways follow the mappings.
enum class fallback_way : uint8_t { peer_memory, ucp, error };
enum class fallback_cause : uint8_t { unsupported, no_room, busy, other };
constexpr size_t mapping_paths = 2;

// Metrics and their numbers.
struct metric_view {
    std::span<const metric_info> infos;
    const uint64_t *numbers = nullptr;

    // Returns nullptr if no metric has that name.
    constexpr const metric_info *find(std::string_view name) const
    {
        const auto found = std::ranges::find_if(
            infos, [&](const metric_info &each) { return name == each.name; });
        return (found == infos.end()) ? nullptr : &*found;
    }
    uint64_t operator[](std::string_view name) const
    {
        const metric_info *found = find(name);
        return (found == nullptr) ? 0 : numbers[found->at];
    }
};

// A metric by its name, which the compiler looks up. It looks into a copy of
// the table: gcc's undefined behaviour sanitizer takes the address of an inline
// variable for one that may be null.
template <const auto &infos>
struct metric_name {
    size_t at;

    consteval metric_name(const char *name)
    {
        const auto table = infos;
        at               = metric_view{table}.find(name)->at;
    }
};
using process_metric = metric_name<process_infos>;
using pair_metric    = metric_name<pair_infos>;

// Numbers that any thread may count, without a lock and without memory.
template <typename Metric, size_t capacity>
struct number_table {
    uint64_t numbers[capacity];

    // `label`: index among the metric's numbers.
    void add(Metric which, uint64_t more = 1, size_t label = 0) noexcept
    {
        __atomic_fetch_add(&numbers[which.at + label], more, __ATOMIC_RELAXED);
    }
    void subtract(Metric which, uint64_t less) noexcept
    {
        add(which, 0 - less);
    }
    void set(Metric which, uint64_t value) noexcept
    {
        __atomic_store_n(&numbers[which.at], value, __ATOMIC_RELAXED);
    }
    uint64_t get(Metric which, size_t label = 0) const noexcept
    {
        return __atomic_load_n(&numbers[which.at + label], __ATOMIC_RELAXED);
    }
    void clear() noexcept
    {
        for (uint64_t &each : numbers) {
            __atomic_store_n(&each, 0, __ATOMIC_RELAXED);
        }
    }
    // Counts a time in its bucket: up to 2^10 ns, up to 2^11 ns and so on.
    void add_time(Metric which, uint64_t nanoseconds) noexcept
    {
        const size_t log = std::bit_width(std::max<uint64_t>(nanoseconds, 1) -
                                          1); // log2 of the bound
        add(which, 1,
            std::clamp<size_t>(log, metric_info::first_log,
                               metric_info::first_log + metric_info::buckets -
                                   1) -
                metric_info::first_log);
        add(which, nanoseconds, metric_info::buckets);
    }
};

// Copies words that other threads may be writing.
void copy_words(void *to, const void *from, size_t size) noexcept;

// A text that is written once, for all threads.
template <size_t capacity>
struct once_text {
    enum : uint64_t { none, being_written, written };

    uint64_t state;
    char text[capacity];

    bool is_written() const
    {
        return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == written;
    }
    // Whether this thread has to write it, with finish().
    bool begin() noexcept
    {
        uint64_t found = none;
        return __atomic_compare_exchange_n(&state, &found, being_written, false,
                                           __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    // Truncates a text that is too long.
    void finish(const char *what) noexcept
    {
        char copied[capacity]{};
        memccpy(copied, what, '\0', capacity - 1);
        copy_words(text, copied, capacity);
        __atomic_store_n(&state, written, __ATOMIC_RELEASE);
    }
    // For a forked child, which lacks the writing thread.
    void forget_writer() noexcept
    {
        uint64_t found = being_written;
        __atomic_compare_exchange_n(&state, &found, none, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
};

// The counters of a NIC and a GPU.
struct pair_row : number_table<pair_metric, 32> {
    once_text<64> nic; // IBV_SYSFS_NAME_MAX
    int64_t gpu;       // the driver's ordinal; -1: not known

    const char *nic_name() const
    {
        return nic.is_written() ? nic.text : "others";
    }
    int gpu_number() const
    {
        return nic.is_written() ? static_cast<int>(gpu) : -1;
    }
    void add_region(size_t step, uint64_t length) noexcept
    {
        add("path_bytes", length, step);
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

// The counters of a process.
struct counters : number_table<process_metric, 128> {
    // For eight GPUs with sixteen NICs; further pairs share the last row.
    static constexpr size_t max_pairs = 128;

    once_text<256> hooks_missing; // the first reason
    pair_row pairs[max_pairs + 1];

    // The row is valid for as long as the process lives.
    pair_row &of(const char *nic, int gpu) noexcept;
    void add_fallback(fallback_way way, fallback_cause why, const char *nic,
                      int gpu, uint64_t length) noexcept;
    // For a forked child, which has its parent's hooks.
    void clear() noexcept
    {
        const uint64_t complete = get("hooks_complete");
        number_table::clear();
        set("hooks_complete", complete);
        hooks_missing.forget_writer();
        for (pair_row &row : pairs) {
            row.clear();
            row.nic.forget_writer();
        }
    }
};

inline constinit counters process_counters{};

// The contents of a page: metrics and their numbers. Another process may have
// other metrics.
struct described_counters {
    uint64_t process_count, pair_count; // of infos
    metric_info process[48], pair[16];
    counters now;

    metric_view of_process() const
    {
        return {{process, process_count}, now.numbers};
    }
    metric_view of(const pair_row &row) const
    {
        return {{pair, pair_count}, row.numbers};
    }
    // Calls `call` with each row that has counted anything.
    template <typename Call>
    void each_pair(const Call &call) const
    {
        for (const pair_row &row : now.pairs) {
            if (std::ranges::any_of(row.numbers, std::identity())) {
                call(row);
            }
        }
    }
    // Reads this process's counters. Allocates nothing.
    void read() noexcept;
    // Copies another process's counters, which may change meanwhile, or be
    // forged. Returns false if they are invalid.
    bool copy(const described_counters &from) noexcept;
};

// Monotonic time, for differences. Does not change errno.
inline uint64_t nanoseconds_now() noexcept
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(now.tv_nsec);
}

} // namespace ucx_ib_dmabuf
