// SPDX-License-Identifier: BSD-3-Clause
#include "counters.h"
#include <sched.h>

namespace ucx_ib_dmabuf {

// Of a copy: to UBSan an address in an inline variable is no constant.
static consteval size_t count_numbers(auto infos)
{
    return infos.back().at + infos.back().size();
}
static_assert(count_numbers(process_infos) <= std::size(counters{}.numbers));
static_assert(count_numbers(pair_infos) <= std::size(pair_row{}.numbers));

void copy_words(void *to, const void *from, size_t size) noexcept
{
    using word [[gnu::may_alias]] = uint64_t;
    auto *out                     = static_cast<word *>(to);
    const auto *in                = static_cast<const word *>(from);

    for (size_t i = 0; i < size / sizeof(word); ++i) {
        __atomic_store_n(&out[i], __atomic_load_n(&in[i], __ATOMIC_ACQUIRE),
                         __ATOMIC_RELAXED);
    }
}

pair_row &counters::of(const char *nic, int gpu) noexcept
{
    for (pair_row &row : std::span(pairs).first<max_pairs>()) {
        if (row.nic.begin()) {
            __atomic_store_n(&row.gpu, gpu, __ATOMIC_RELAXED);
            row.nic.finish(nic);
            return row;
        }
        while (!row.nic.is_written()) {
            sched_yield(); // no lock, which a fork would have to wait for
        }
        if ((row.gpu == gpu) &&
            (strncmp(row.nic.text, nic, sizeof(row.nic.text) - 1) == 0)) {
            return row;
        }
    }
    return pairs[max_pairs];
}

void counters::add_fallback(fallback_way way, fallback_cause why,
                            const char *nic, int gpu, uint64_t length) noexcept
{
    const auto cause         = static_cast<size_t>(why);
    const metric_info &table = *std::ranges::find(
        process_infos, std::string_view("fallback_operations"),
        [](const metric_info &each) { return std::string_view(each.name); });
    const size_t label = static_cast<size_t>(way) * table.count_of(1) + cause;
    pair_row &row      = of(nic, gpu);

    add("fallback_operations", 1, label);
    add("fallback_bytes", length, label);
    row.add("fallback_operations", 1, cause);
    row.add("path_bytes", length, mapping_paths + static_cast<size_t>(way));
}

void described_counters::read() noexcept
{
    process_count = std::size(process_infos);
    pair_count    = std::size(pair_infos);
    std::ranges::copy(process_infos, process);
    std::ranges::copy(pair_infos, pair);
    copy_words(&now, &process_counters, sizeof(now));
}

// Terminates the texts, and places the numbers. Returns false if there are more
// numbers than fit, or a forged name.
static bool check(std::span<metric_info> infos, size_t capacity)
{
    for (metric_info &each : infos) {
        std::end(each.name)[-1]     = std::end(each.labels)[-1] =
            std::end(each.json)[-1] = '\0';
    }
    return (place_numbers(infos) <= capacity) &&
           std::ranges::find(infos, "pid", &metric_info::json_name) ==
               infos.end();
}

bool described_counters::copy(const described_counters &from) noexcept
{
    copy_words(this, &from, sizeof(*this));
    std::end(now.hooks_missing.text)[-1] = '\0';
    for (pair_row &row : now.pairs) {
        std::end(row.nic.text)[-1] = '\0';
    }
    return (process_count <= std::size(process)) &&
           (pair_count <= std::size(pair)) &&
           check({process, process_count}, std::size(now.numbers)) &&
           check({pair, pair_count}, std::size(now.pairs[0].numbers));
}

} // namespace ucx_ib_dmabuf
