// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <list>
#include <map>
#include <uct/ib_dmabuf/gpu/segment_run.h>
#include <utility>

namespace ucx_ib_dmabuf {

// A range that is registered with one NIC, for the users that got it.
struct region {
    uintptr_t address; // the registered range: the whole allocation or a part
    size_t length;
    void *handle; // the registrar's
};

// Why a region leaves the index.
enum class cause : uint8_t {
    none,
    released, // as an event reported
    stale,    // its memory is gone, without an event
    evicted,
    replaced, // a larger one covers it
    detached,
    failed, // operations of the NIC failed
};

// A NIC's slot in the cache.
using nic_id = unsigned;

struct cached_region;
using region_list = std::list<cached_region>;
using region_map  = std::map<uintptr_t, cached_region *>;

// A region with the cache's data. In the index and in the LRU list until it is
// retired; then the thread that finds it unused deregisters it. Under the
// cache's lock, except the addresses and identities of its memory, which never
// change.
struct cached_region : region {
    address_range bytes; // the bytes that it serves, of its allocation
    segments memory;     // the allocations or segments of these bytes
    size_t exported = 0; // bytes that the GPU maps for it and its siblings
    nic_id nic      = 0;
    int device      = -1; // slot in the budget

    region_list::iterator place;      // in its current list
    region_map::node_type entry;      // of the index, while it is not in there
    cached_region *sibling = nullptr; // next one of the same export, or itself
    cached_region *next_in_batch = nullptr;

    uint32_t users      = 0;
    uint32_t generation = 0;     // of the cache, when it was made
    uint64_t last_use   = 0;     // number of the use
    uint64_t claim      = 0;     // number of the claim
    bool unasked        = false; // made on another NIC's request
    bool retired        = false; // out of the index for good
    bool claimed        = false; // a thread deregisters it, or has done so
    bool revoked        = false; // claimed although in use
    bool ended          = false; // deregistered although in use
    cause why           = cause::none;
};

// Regions that leave the cache; each is in one batch at most.
class batch {
public:
    // For range-based for loops.
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

// The registrations from one export, which the GPU maps once for all of them.
// They are linked in a ring. Under the cache's lock.
namespace mapping {

// Joins the ring of another one. If `other` is nullptr, starts a ring.
inline void join(cached_region *e, cached_region *other)
{
    e->sibling = e;
    if (other != nullptr) {
        std::swap(e->sibling, other->sibling);
    }
}

// Removes a deregistered one. Returns whether it was the last one.
inline bool part(cached_region *e)
{
    cached_region *before = e;
    while (before->sibling != e) {
        before = before->sibling;
    }
    before->sibling = e->sibling;
    return before == e;
}

// Calls `call` with each until it returns false. Returns whether none did.
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
