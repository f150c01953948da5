// SPDX-License-Identifier: BSD-3-Clause
#include "counters.h"

namespace ucx_ib_dmabuf {

// Takes no lock, which a fork would have to wait for. Threads that need the
// same new row at once store the same.
pair_row &counters::of(std::string_view nic, int gpu) noexcept
{
    const uint64_t wanted = std::max<uint64_t>(
        hash_of(right_layout, nic) ^ static_cast<unsigned>(gpu), 1);
    pair_row *found = &pairs[max_pairs];

    for (pair_row &row : std::span(pairs).first<max_pairs>()) {
        uint64_t key = __atomic_load_n(&row.key, __ATOMIC_RELAXED);
        if (key == 0) {
            __atomic_compare_exchange_n(&row.key, &key, wanted, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        }
        if ((key == 0) || (key == wanted)) {
            found = &row;
            break;
        }
    }
    const bool is_rest = found == &pairs[max_pairs];
    __atomic_store_n(&found->gpu, is_rest ? -1 : gpu, __ATOMIC_RELAXED);
    found->nic.set(is_rest ? "others" : nic);
    return *found;
}

void counters::add_fallback(fallback_way way, fallback_cause why,
                            const char *nic, int gpu, uint64_t length) noexcept
{
    const size_t label =
        static_cast<size_t>(way) * by_cause.count() + static_cast<size_t>(why);
    pair_row &row = of(nic, gpu);

    add("fallback_operations", 1, label);
    add("fallback_bytes", length, label);
    row.add("fallback_operations", 1, label);
    row.add("fallback_bytes", length, label);
}

} // namespace ucx_ib_dmabuf
