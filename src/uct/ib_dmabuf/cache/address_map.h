// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ADDRESS_MAP_H_
#define UCX_IB_DMABUF_CACHE_ADDRESS_MAP_H_

#include "entry.h"
#include <map>

namespace ucx_ib_dmabuf {

// The entries of one NIC by address; what they serve does not overlap. Under
// the cache's lock.
class address_map {
public:
    // The entry that serves all of the range, or nullptr.
    entry *find(span range) const
    {
        entry *e = first_overlap(range);
        return e != nullptr && e->bytes.covers(range) ? e : nullptr;
    }
    // The entry with the lowest address that serves any of the range.
    entry *first_overlap(span range) const
    {
        auto it = by_end_.upper_bound(range.lo);
        return it != by_end_.end() && it->second->bytes.overlaps(range)
                   ? it->second
                   : nullptr;
    }
    void insert(entry *e) { by_end_.emplace(e->bytes.hi, e); }
    void erase(entry *e) { by_end_.erase(e->bytes.hi); }

private:
    std::map<uintptr_t, entry *> by_end_;
};

} // namespace ucx_ib_dmabuf

#endif
