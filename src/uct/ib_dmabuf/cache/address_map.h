// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ADDRESS_MAP_H_
#define UCX_IB_DMABUF_CACHE_ADDRESS_MAP_H_

#include "bunch.h"
#include "limbo.h"

namespace ucx_ib_dmabuf {

// The entries of one NIC by address; what they serve does not overlap. A radix
// tree over granules of 2 MiB, the unit in which drivers hand out device
// memory: 13 bits choose one of its leaves and 13 more the granule. Above the
// 47 bits that makes, there is a tree for each value of the upper bits in use.
// A granule holds nothing, an entry, or a bunch of entries. Leaves stay until
// the map goes.
class address_map {
public:
    address_map() { forget(); }
    ~address_map() { clear(); }
    address_map(const address_map &)            = delete;
    address_map &operator=(const address_map &) = delete;

    // What there is at the address, for near(). In a read section, or under
    // the cache's lock.
    uintptr_t value_at(uintptr_t address) const
    {
        return is_low(address) ? low_value_at(address)
                               : value_in(find_tree(address), address);
    }
    // The same for the addresses that all known GPUs have.
    static bool is_low(uintptr_t address) { return address >> tree_shift == 0; }
    uintptr_t low_value_at(uintptr_t address) const
    {
        return value_in(low_.load(std::memory_order_acquire), address);
    }
    static bool is_bunch(uintptr_t value) { return (value & bunch_tag) != 0; }
    // The entry that serves the address, if there is one, or one that does
    // not.
    static entry *near(uintptr_t value, uintptr_t address)
    {
        return is_bunch(value) ? as_bunch(value)->find(address & granule_mask)
                               : reinterpret_cast<entry *>(value);
    }

    // The rest is under the cache's lock.

    // The entry that serves all of the range, or nullptr.
    entry *find(span range) const
    {
        entry *e = near(value_at(range.lo), range.lo);
        return e != nullptr && e->bytes.covers(range) ? e : nullptr;
    }
    // The one with the lowest address that serves any of the range.
    entry *first_overlap(span range) const;
    // False without memory.
    bool insert(entry *e, limbo *gone);
    void erase(entry *e, limbo *gone);
    // Nobody reads any more.
    void clear();
    // In the child of a fork: leaves everything behind.
    void forget();

private:
    static constexpr unsigned granule_shift = 21;
    static constexpr unsigned level_bits    = steps::size(13, 4);
    static constexpr unsigned leaf_shift    = granule_shift + level_bits;
    static constexpr unsigned tree_shift    = leaf_shift + level_bits;
    static constexpr uintptr_t level_mask   = (1u << level_bits) - 1;
    static constexpr uintptr_t granule_mask =
        (uintptr_t{1} << granule_shift) - 1;
    static constexpr uintptr_t bunch_tag = 1;

    struct leaf {
        atomic<uintptr_t> slots[level_mask + 1];
    };
    struct tree {
        atomic<leaf *> leaves[level_mask + 1];
        uintptr_t number; // the address's upper bits
        tree *next;
    };
    static tree no_tree; // without leaves

    static bunch *as_bunch(uintptr_t value)
    {
        return reinterpret_cast<bunch *>(value - bunch_tag);
    }

    static uintptr_t value_in(const tree *t, uintptr_t address)
    {
        const leaf *l = t->leaves[(address >> leaf_shift) & level_mask].load(
            std::memory_order_acquire);
        return l == nullptr
                   ? 0
                   : l->slots[(address >> granule_shift) & level_mask].load(
                         fence::load_order);
    }

    // no_tree if there is none.
    tree *find_tree(uintptr_t address) const;
    // nullptr if it has no leaf.
    atomic<uintptr_t> *find_slot(uintptr_t address) const;
    atomic<uintptr_t> *make_slot(uintptr_t address);
    tree *make_tree(uintptr_t address);
    static void destroy(tree *t);
    bool prepare(span range);
    bool insert_at(uintptr_t address, entry *e, limbo *gone);
    void erase_at(uintptr_t address, entry *e, limbo *gone);
    uintptr_t skip_empty(uintptr_t address) const;

    atomic<tree *> low_;   // number 0, or no_tree
    atomic<tree *> trees_; // all of them
};

} // namespace ucx_ib_dmabuf

#endif
