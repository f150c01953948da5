// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_BUCKET_H_
#define UCX_IB_DMABUF_CACHE_BUCKET_H_

#include "cached_region.h"

namespace ucx_ib_dmabuf {

// The regions that share a granule of the address space, by where they begin.
// None is within another, so they are sorted by their ends, too.
class bucket {
public:
    static constexpr uint32_t first_capacity = 3;

    // nullptr without memory.
    static bucket *make(uint32_t capacity = first_capacity);
    static void destroy(bucket *b);

    uint32_t size() const { return size_; }
    // The one that begins last at or before the address: no other reaches
    // further of those that serve it.
    cached_region *find(uintptr_t address) const
    {
        uint32_t i = end_of(address);
        return i == 0 ? nullptr : slots()[i - 1].e;
    }
    // The first one that begins at `least` or later and ends after `before`.
    cached_region *first(uintptr_t least, uintptr_t before) const
    {
        uint32_t i = end_of(before);
        while (i > 0 && slots()[i - 1].e->bytes.hi > before) {
            --i;
        }
        i = std::max(i, least == 0 ? 0 : end_of(least - 1));
        return i == size_ ? nullptr : slots()[i].e;
    }
    // The bucket, or a larger one in its place; nullptr without memory.
    bucket *insert(cached_region *e);
    void erase(cached_region *e);

private:
    // Where it begins beside it: the search reads no region.
    struct slot {
        uintptr_t lo;
        cached_region *e;
    };

    slot *slots() const
    {
        return reinterpret_cast<slot *>(const_cast<bucket *>(this) + 1);
    }
    // How many begin at or before the address.
    uint32_t end_of(uintptr_t address) const
    {
        return static_cast<uint32_t>(
            std::upper_bound(
                slots(), slots() + size_, address,
                [](uintptr_t at, const slot &s) { return at < s.lo; }) -
            slots());
    }

    uint32_t size_ = 0, capacity_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
