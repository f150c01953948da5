// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_MAPPING_H_
#define UCX_IB_DMABUF_CACHE_MAPPING_H_

#include "cached_region.h"

// The registrations that were made from one export: the GPU maps it once for
// all of them. They are linked in a ring. Under the cache's lock.
namespace ucx_ib_dmabuf::mapping {

// Joins the ring of another one; nullptr: begins one.
inline void join(cached_region *e, cached_region *other)
{
    e->rest->sibling = e;
    if (other != nullptr) {
        std::swap(e->rest->sibling, other->rest->sibling);
    }
}

// It is deregistered. Whether it was the last one.
inline bool part(cached_region *e)
{
    cached_region *before = e;
    while (before->rest->sibling != e) {
        before = before->rest->sibling;
    }
    before->rest->sibling = e->rest->sibling;
    return before == e;
}

// Calls with each of them, until one call returns false; whether none did.
template <typename Call>
bool all_of(cached_region *first, Call call)
{
    cached_region *e = first;
    do {
        cached_region *after = e->rest->sibling;
        if (!call(e)) {
            return false;
        }
        e = after;
    } while (e != first);
    return true;
}

} // namespace ucx_ib_dmabuf::mapping

#endif
