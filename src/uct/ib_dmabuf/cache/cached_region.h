// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "memory_run.h"
#include <list>
#include <map>
#include <utility>

namespace ucx_ib_dmabuf {

// A registration of a range with one NIC, in use by whoever got it.
struct region {
    uintptr_t address; // what is registered: the whole allocation or a part
    size_t length;
    void *handle; // the registrar's
};

// Why a region leaves the index.
enum class cause : uint8_t {
    none,
    released, // an event
    stale,    // its memory is gone, and no event told
    evicted,
    replaced, // a larger one has all of it
    detached,
    failed, // operations of the NIC's
};

// A NIC's place in the cache.
using nic_id = unsigned;

struct cached_region;
using region_list = std::list<cached_region>;
using region_map  = std::map<uintptr_t, cached_region *>;

// A region as the cache knows it. In the index and in the LRU list until it is
// retired; deregistered by whoever finds it unused after that. All but its
// memory's places and identities, which never change, is under the cache's
// lock.
struct cached_region : region {
    span bytes;          // what it serves: the part of its allocation
    pieces memory;       // of which that is made
    size_t exported = 0; // bytes that the GPU maps for it and its siblings
    nic_id nic      = 0;
    int device      = -1; // its place in the budget

    region_list::iterator place;      // in the list that it is in
    region_map::node_type entry;      // of the index, while it is not there
    cached_region *sibling = nullptr; // the next one of the same export, or it
    cached_region *next_in_batch = nullptr;

    uint32_t users      = 0;
    uint32_t generation = 0;     // of the cache: how many forks ago
    uint64_t last_use   = 0;     // its number
    uint64_t claim      = 0;     // its number, if it is claimed
    bool unasked        = false; // made because another NIC asked
    bool retired        = false; // out of the index, for good
    bool claimed        = false; // somebody deregisters it, or has done so
    bool revoked        = false; // claimed although somebody has it,
    bool ended          = false; // deregistered so: the last user ends it
    cause why           = cause::none;
};

// Some regions on their way out; each is in one batch at most.
class batch {
public:
    // What a range-based for needs.
    struct iterator {
        cached_region *operator*() const { return e; }
        void operator++() { e = e->next_in_batch; }
        bool operator==(const iterator &) const = default;

        cached_region *e = nullptr;
    };

    iterator begin() const { return {first_}; }
    iterator end() const { return {}; }
    bool empty() const { return first_ == nullptr; }
    void push(cached_region *e) { e->next_in_batch = std::exchange(first_, e); }
    cached_region *pop()
    {
        cached_region *e = first_;
        if (e != nullptr) {
            first_ = e->next_in_batch;
        }
        return e;
    }

private:
    cached_region *first_ = nullptr;
};

// The registrations that were made from one export: the GPU maps it once for
// all of them. They are linked in a ring. Under the cache's lock.
namespace mapping {

// Joins the ring of another one; nullptr: begins one.
inline void join(cached_region *e, cached_region *other)
{
    e->sibling = e;
    if (other != nullptr) {
        std::swap(e->sibling, other->sibling);
    }
}

// It is deregistered. Whether it was the last one.
inline bool part(cached_region *e)
{
    cached_region *before = e;
    while (before->sibling != e) {
        before = before->sibling;
    }
    before->sibling = e->sibling;
    return before == e;
}

// Calls with each of them, until one call returns false; whether none did.
template <typename Call>
bool all_of(cached_region *first, Call call)
{
    cached_region *e = first;
    do {
        cached_region *after = e->sibling;
        if (!call(e)) {
            return false;
        }
        e = after;
    } while (e != first);
    return true;
}

} // namespace mapping

} // namespace ucx_ib_dmabuf
