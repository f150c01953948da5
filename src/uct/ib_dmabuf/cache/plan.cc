// SPDX-License-Identifier: BSD-3-Clause
#include "plan.h"

namespace ucx_ib_dmabuf {

span chunks_of(const extent &memory, span request, size_t chunk_size)
{
    span all{memory.base, memory.base + memory.size};
    if (all.size() <= chunk_size) {
        return all;
    }
    return intersection(all, aligned(request, chunk_size));
}

static void add(plan *result, span range)
{
    for (size_t i = 0; i < result->count; ++i) {
        if (result->ranges[i] == range) {
            return;
        }
    }
    result->ranges[result->count++] = range;
}

plan make_plan(const extent &memory, span request, span known,
               size_t chunk_size, size_t granularity)
{
    span chunks = chunks_of(memory, request, chunk_size);
    plan result;
    add(&result, aligned(hull(chunks, known), granularity));
    add(&result, aligned(chunks, granularity));
    add(&result, aligned(request, granularity));
    return result;
}

} // namespace ucx_ib_dmabuf
