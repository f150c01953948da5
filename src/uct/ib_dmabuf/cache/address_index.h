// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ADDRESS_INDEX_H_
#define UCX_IB_DMABUF_CACHE_ADDRESS_INDEX_H_

#include "bucket.h"

namespace ucx_ib_dmabuf {

// The regions of one NIC by address. They may overlap, but none is within
// another. A radix tree over granules of 2 MiB, the unit in which drivers hand
// out device memory: 13 bits choose one of its leaves and 13 more the granule.
// Above the 47 bits that makes, there is a tree for each value of the upper
// bits in use. A granule holds nothing, a region, or a bucket of regions.
// Leaves stay until the index is cleared. Changes while there is a writer
// (reclaim/references.h); reading it, as a reader or under the cache's lock.
class address_index {
public:
    address_index() = default;
    ~address_index() { clear(); }
    address_index(const address_index &)            = delete;
    address_index &operator=(const address_index &) = delete;

    // A region that serves all of the range, which is not empty; or nullptr.
    [[gnu::always_inline]] cached_region *find(uintptr_t address,
                                               size_t length) const
    {
        uintptr_t value  = value_at(address);
        cached_region *e = is_bucket(value)
                               ? as_bucket(value)->find(address)
                               : reinterpret_cast<cached_region *>(value);
        return e != nullptr && e->covers(address, length) ? e : nullptr;
    }
    // The same, in fewer registers: unsure where there is a bucket.
    [[gnu::always_inline]] cached_region *
    find_quickly(uintptr_t address, size_t length, bool *sure) const
    {
        uintptr_t value = value_at(address);
        *sure           = !is_bucket(value);
        auto *e = *sure ? reinterpret_cast<cached_region *>(value) : nullptr;
        return e != nullptr && e->covers(address, length) ? e : nullptr;
    }
    // The one that begins first of those that serve any of the range.
    cached_region *first(span range) const { return scan(range, range.lo, 0); }
    // The one after it. It may have been erased meanwhile.
    cached_region *next(const cached_region *e, span range) const
    {
        return scan(range, std::max(range.lo, e->bytes.lo), e->bytes.lo + 1);
    }

    // Calls with each of them; what it was called with may leave the index.
    template <typename Call>
    void each(span range, Call call) const
    {
        for (cached_region *e = first(range); e != nullptr;
             e                = next(e, range)) {
            call(e);
        }
    }

    // False without memory.
    bool insert(cached_region *e);
    void erase(cached_region *e);
    // Nobody reads any more.
    void clear();
    // In the child of a fork: leaves everything behind.
    void forget() { trees_ = nullptr; }

private:
    static constexpr unsigned granule_shift = 21;
    static constexpr unsigned level_bits    = steps::size(13, 4);
    static constexpr unsigned leaf_shift    = granule_shift + level_bits;
    static constexpr unsigned tree_shift    = leaf_shift + level_bits;
    static constexpr uintptr_t level_mask   = (1u << level_bits) - 1;
    static constexpr uintptr_t granule_mask =
        (uintptr_t{1} << granule_shift) - 1;
    static constexpr uintptr_t bucket_tag = 1;

    struct leaf {
        uintptr_t slots[level_mask + 1];
    };
    struct tree {
        uintptr_t number; // the address's upper bits
        tree *next;
        leaf *leaves[level_mask + 1];
    };

    static bool is_bucket(uintptr_t value) { return (value & bucket_tag) != 0; }
    static bucket *as_bucket(uintptr_t value)
    {
        return reinterpret_cast<bucket *>(value - bucket_tag);
    }
    tree *find_tree(uintptr_t address) const
    {
        tree *t = trees_;
        while (t != nullptr && t->number != address >> tree_shift) {
            t = t->next;
        }
        return t;
    }
    // nullptr: there is no leaf.
    uintptr_t *slot_at(uintptr_t address) const
    {
        tree *t = find_tree(address);
        leaf *l = t == nullptr
                      ? nullptr
                      : t->leaves[(address >> leaf_shift) & level_mask];
        return l == nullptr
                   ? nullptr
                   : &l->slots[(address >> granule_shift) & level_mask];
    }

    // What the granule holds.
    [[gnu::always_inline]] uintptr_t value_at(uintptr_t address) const
    {
        steps::touches(steps::access::reads);
        const uintptr_t *slot = slot_at(address);
        return slot == nullptr ? 0 : *slot;
    }

    uintptr_t *make_slot(uintptr_t address);
    bool insert_at(uintptr_t address, cached_region *e);
    void erase_at(uintptr_t address, cached_region *e);
    void erase_up_to(uintptr_t end, cached_region *e);
    uintptr_t skip_empty(uintptr_t address) const;
    cached_region *scan(span range, uintptr_t from, uintptr_t least) const;

    tree *trees_ = nullptr;
};

} // namespace ucx_ib_dmabuf

#endif
