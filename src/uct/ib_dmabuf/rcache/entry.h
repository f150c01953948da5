// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <utility>

namespace ucx_ib_dmabuf {

// A range that is registered with one NIC, for the users that got it.
struct region {
    uintptr_t address; // the registered range: the whole allocation or a part
    size_t length;
    void *handle; // the registrar's
};

// A NIC's slot in the cache.
using nic_id = unsigned;

// The hull of this and another range is the other one.
constexpr address_range nothing{UINTPTR_MAX, 0};

// Why an entry is deregistered.
enum class cause : uint8_t {
    not_published,
    released, // as an event reported
    stale,    // its memory is gone, without an event
    evicted,
    replaced, // a larger one covers it
    detached,
    failed, // operations of the NIC failed
};

// The steps of an entry's life. Each one has a list of the cache.
enum class stage : uint8_t {
    cached,       // in the index
    unlinked,     // out of the index, but in use
    leaving,      // a thread deregisters it
    deregistered, // but in use
};

struct entry;
using entry_list = std::list<entry>;
using entry_map  = std::multimap<uintptr_t, entry *>;

// One export. The GPU maps it once for all of its entries. Under the cache's
// lock.
struct export_group {
    using list = std::list<export_group *>;

    export_group(int its_device, size_t its_bytes)
        : device(its_device), bytes(its_bytes), node{this}, place(node.begin())
    {
    }
    ~export_group()                               = default;
    export_group(const export_group &)            = delete;
    export_group &operator=(const export_group &) = delete;

    const int device; // slot in the budget
    const size_t bytes;
    uint32_t entries = 0; // counted in the budget
    uint32_t users   = 0; // of all entries
    size_t busy      = 0; // entries in the index that have users
    entry_list cached;    // entries in the index
    list node;            // itself, while it is in no list of the cache
    list *in          = &node;
    uint64_t last_use = 0;      // orders the groups in each list
    const list::iterator place; // in that list
    address_range ahead;        // registered before any use, and not used
};

// A region with the cache's data, under the cache's lock. The addresses and
// identities of its memory never change.
struct entry : region {
    address_range bytes; // the bytes that it serves, of its allocation
    segments memory;     // the allocations or segments of these bytes
    std::shared_ptr<export_group> group;
    nic_id nic          = 0;
    uint32_t generation = 0; // of the cache, when it was made

    entry_list::iterator place; // in its current list
    entry_map::node_type node;  // while it is in no map
    entry *next = nullptr;      // in an entry_chain

    size_t parts_left  = 0; // of its memory: not lost
    uint32_t users     = 0;
    uint64_t departure = 0;     // number of the departure
    bool prefetched    = true;  // registered without a request to its NIC
    bool is_allocation = false; // all of an allocation, which never grows
    stage at           = stage::cached;
    cause why          = cause::not_published;
};

// Entries for one purpose. Each entry is in one chain at most.
struct entry_chain {
    entry *first = nullptr;

    bool empty() const { return first == nullptr; }
    void push(entry *e) { e->next = std::exchange(first, e); }
    entry *pop()
    {
        entry *e = first;
        if (e != nullptr) {
            first = e->next;
        }
        return e;
    }
};

// The entries of one NIC by start address. They may overlap, but none is within
// another, so they are sorted by their ends as well. The last one that begins
// at or before an address reaches furthest. Under the cache's lock.
class entry_index {
public:
    // An entry with all of the range, or nullptr; also for an empty range.
    entry *find(uintptr_t address, size_t length) const
    {
        const auto after = entries_.upper_bound(address);
        if (after == entries_.begin()) {
            return nullptr;
        }
        entry *e = std::prev(after)->second;
        return address < e->bytes.hi && length - 1 < e->bytes.hi - address
                   ? e
                   : nullptr;
    }
    // Calls `call` with each that serves any of the range, in order. An entry
    // may leave the index in its call.
    template <typename Call>
    void each(address_range range, Call call) const
    {
        auto at = entries_.upper_bound(range.lo);
        while (at != entries_.begin() &&
               std::prev(at)->second->bytes.hi > range.lo) {
            --at;
        }
        while (at != entries_.end() && at->first < range.hi) {
            call((at++)->second);
        }
    }

    // The entry's node is allocated and freed with the entry.
    void insert(entry *e) { entries_.insert(std::move(e->node)); }
    void erase(entry *e) { e->node = entries_.extract(e->bytes.lo); }

private:
    entry_map entries_;
};

// Entries that may lie within another one. A map for each size, doubled from
// one to the next, limits how far ahead of a range an entry may begin. Under
// the cache's lock.
class overlap_index {
public:
    // As entry_index::each(), but in no order.
    template <typename Call>
    void each(address_range range, Call call)
    {
        for (uint64_t left = sizes_; left != 0; left &= left - 1) {
            const auto log          = size_t(std::countr_zero(left));
            const uintptr_t longest = UINTPTR_MAX >> (63 - log);
            auto at                 = by_size_[log].lower_bound(range.lo -
                                                                std::min(range.lo, longest));
            while (at != by_size_[log].end() && at->first < range.hi) {
                entry *e = (at++)->second;
                if (e->bytes.hi > range.lo) {
                    call(e);
                }
            }
        }
    }
    void insert(entry *e)
    {
        sizes_ |= uint64_t{1} << size_of(*e);
        by_size_[size_of(*e)].insert(std::move(e->node));
    }
    void erase(entry *e)
    {
        entry_map &all = by_size_[size_of(*e)];
        auto at        = all.lower_bound(e->bytes.lo);
        while (at->second != e) {
            ++at;
        }
        e->node = all.extract(at);
        sizes_ &= ~(uint64_t{all.empty()} << size_of(*e));
    }

private:
    static size_t size_of(const entry &e)
    {
        return (size_t(std::bit_width(e.bytes.size())) - 1) % 64;
    }

    std::array<entry_map, 64> by_size_;
    uint64_t sizes_ = 0; // a bit for each map that is not empty
};

} // namespace ucx_ib_dmabuf
