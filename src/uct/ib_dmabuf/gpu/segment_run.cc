// SPDX-License-Identifier: BSD-3-Clause
#include "segment_run.h"
#include <new>

namespace ucx_ib_dmabuf {

static bool is_sane(const allocation &one)
{
    return one.size != 0 && one.size <= UINTPTR_MAX - one.base;
}

void segment_run::append(const allocation &next)
{
    all.push_back({next.base, next.identity});
    range.hi = next.base + next.size;
}

ucs_status_t segment_run::describe(exporter &memory, address_range request)
try {
    allocation next;
    ucs_status_t status = as_answer(memory.describe(request.lo, &next));
    if (status != UCS_OK) {
        return status;
    }
    if (!is_sane(next) || request.empty() || next.base > request.lo ||
        next.base + next.size <= request.lo) {
        return UCS_ERR_INVALID_PARAM;
    }
    range.lo    = next.base;
    device      = next.device;
    joins       = next.joins;
    identity    = next.identity;
    reservation = next.reservation;
    in_chunks   = next.in_chunks;
    std::unique_ptr<exporter::session> together;
    if (joins && next.base + next.size < request.hi) {
        together = memory.begin(request.lo);
    }
    for (append(next); !range.covers(request); append(next)) {
        // Two allocations that touch are not one run.
        if (!joins || memory.describe(range.hi, &next) != UCS_OK ||
            !is_sane(next) || !next.joins || next.device != device ||
            next.base != range.hi) {
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return UCS_OK;
} catch (const std::bad_alloc &) {
    return UCS_ERR_NO_MEMORY;
}

void segment_run::extend(exporter &memory, address_range within)
{
    allocation next;
    auto is_next = [&](uintptr_t at) {
        return memory.describe(at, &next) == UCS_OK && is_sane(next) &&
               next.joins && next.device == device &&
               next.reservation == reservation &&
               within.covers({next.base, next.base + next.size});
    };
    auto together = memory.begin(range.lo);
    try {
        segments before;
        uintptr_t lo = range.lo;
        while (lo > within.lo && is_next(lo - 1) &&
               next.base + next.size == lo) {
            before.push_back({next.base, next.identity});
            lo = next.base;
        }
        all.insert(all.begin(), before.rbegin(), before.rend());
        range.lo = lo;
        while (range.hi < within.hi && is_next(range.hi) &&
               next.base == range.hi) {
            append(next);
        }
    } catch (const std::bad_alloc &) {
        // The run is valid as far as it was extended.
    }
}

bool segment_run::is_current(exporter &memory) const
{
    return std::all_of(all.begin(), all.end(), [&](auto &each) {
        return memory.is_current(each.base, each.identity);
    });
}

address_range window_of(address_range request, size_t chunk_size)
{
    for (size_t size = chunk_size; size != 0; size *= 2) {
        for (size_t shift : {size_t{0}, size / 2}) {
            if (request.lo < shift) {
                continue;
            }
            uintptr_t lo         = ((request.lo - shift) & ~(size - 1)) + shift;
            address_range window = make_range(lo, size);
            if (window.covers(request)) {
                return window;
            }
        }
    }
    return {0, UINTPTR_MAX};
}

address_range range_to_register(address_range memory, address_range request,
                                size_t chunk_size)
{
    return memory.size() <= chunk_size
               ? memory
               : intersection(memory, window_of(request, chunk_size));
}

} // namespace ucx_ib_dmabuf
