// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_PLAN_H_
#define UCX_IB_DMABUF_CACHE_PLAN_H_

#include "provider.h"
#include "span.h"
#include <array>

namespace ucx_ib_dmabuf {

// The ranges worth trying to register for a request, best first. What comes
// later is smaller and is there for when the better one has no room.
struct plan {
    std::array<span, 3> ranges;
    size_t count = 0;
};

// `request` lies in `memory`. `known` is the hull of the request and of what is
// registered of the same memory and would overlap the chunks of the request
// (then the request itself, if nothing does): a range that grows around it
// replaces it without losing anything.
plan make_plan(const extent &memory, span request, span known,
               size_t chunk_size, size_t granularity);

// The chunks of the memory that the request touches: all of it, if it is no
// larger than a chunk. Not rounded to the granularity.
span chunks_of(const extent &memory, span request, size_t chunk_size);

} // namespace ucx_ib_dmabuf

#endif
