// SPDX-License-Identifier: BSD-3-Clause
#include "counters.h"
#include <cstdlib>
#include <memory>
#include <new>

namespace ucx_ib_dmabuf {

pair_row &counters::of(const char *nic, int gpu) noexcept
{
    pair_row *first = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
    std::unique_ptr<pair_row> made;

    for (;;) {
        size_t count = 0;
        for (pair_row *row = first; row != nullptr; row = row->next, ++count) {
            if ((row->gpu == gpu) &&
                (strncmp(row->nic, nic, sizeof(row->nic) - 1) == 0)) {
                return *row; // perhaps made by another thread meanwhile
            }
        }
        if ((count < max_pairs) && !made) {
            made.reset(new (std::nothrow) pair_row{});
        }
        if ((count >= max_pairs) || !made) {
            return others;
        }
        made->gpu  = gpu;
        made->next = first;
        memccpy(made->nic, nic, '\0', sizeof(made->nic) - 1);
        if (__atomic_compare_exchange_n(&newest, &first, made.get(), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return *made.release();
        }
    }
}

void counters::set_hooks_missing(const char *why) noexcept
{
    char *copy = strdup(why), *none = nullptr;

    if (!__atomic_compare_exchange_n(&hooks_missing, &none, copy, false,
                                     __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        free(copy);
    }
}

void counters::add_fallback(fallback_way way, fallback_cause why,
                            const char *nic, int gpu, uint64_t length) noexcept
{
    const auto cause   = static_cast<size_t>(why);
    const size_t label = static_cast<size_t>(way) * by_cause.count() + cause;
    pair_row &row      = of(nic, gpu);

    add("fallback_operations", 1, label);
    add("fallback_bytes", length, label);
    row.add("fallback_operations", 1, cause);
    row.add("path_bytes", length, mapping_paths + static_cast<size_t>(way));
}

} // namespace ucx_ib_dmabuf
