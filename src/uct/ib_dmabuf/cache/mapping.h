// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_MAPPING_H_
#define UCX_IB_DMABUF_CACHE_MAPPING_H_

#include "entry.h"

// The registrations that were made from one export: the GPU maps it once for
// all of them. They are linked in a ring. Under the cache's lock.
namespace ucx_ib_dmabuf::mapping {

inline entry *next(const entry *e)
{
    return entries::at(entries::links(e).sibling);
}

// Joins the ring of another one; nullptr: begins one.
inline void join(entry *e, entry *other)
{
    auto &mine   = entries::links(e);
    mine.sibling = e->id;
    if (other != nullptr) {
        std::swap(mine.sibling, entries::links(other).sibling);
    }
}

// It is deregistered. Whether it was the last one.
inline bool part(entry *e)
{
    entry *before = e;
    while (next(before) != e) {
        before = next(before);
    }
    entries::links(before).sibling = entries::links(e).sibling;
    return before == e;
}

// Calls with each of them, until one call returns false; whether none did.
template <typename Call>
bool all_of(entry *first, Call call)
{
    entry *e = first;
    do {
        entry *after = next(e);
        if (!call(e)) {
            return false;
        }
        e = after;
    } while (e != first);
    return true;
}

inline bool idle(entry *e)
{
    return all_of(e, [](entry *each) { return entries::uses(each) == 0; });
}

} // namespace ucx_ib_dmabuf::mapping

#endif
