// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_CACHED_REGION_H_
#define UCX_IB_DMABUF_CACHE_CACHED_REGION_H_

#include "cache.h"
#include "pieces.h"
#include "reclaim/references.h"

namespace ucx_ib_dmabuf {

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

struct cached_region;

// What a hit needs not know of a region. Under the cache's lock.
struct region_rest {
    // In the LRU list, or in the ones of what was retired in use or claimed.
    cached_region *older = nullptr, *newer = nullptr;
    cached_region *next_in_batch = nullptr;
    // The next one of the same export; itself, if there is no other.
    cached_region *sibling = nullptr;
    pieces memory;
    uint64_t claim = 0; // its number, if it is claimed
    // References of threads that have no record.
    uint32_t extra_references = 0;
    uint32_t generation       = 0; // of the cache: how many forks ago
#if ENABLE_ASSERT
    std::atomic<int32_t> checked_references{0};
#endif
};

// A region as the cache knows it. In the index and in the LRU list until it is
// retired; deregistered by whoever finds it unused after that. One cache line,
// which is all that a hit reads of it. Changes under the cache's lock, what a
// reader looks at only while there is a writer; `recent` and `unasked` at any
// time.
struct alignas(64) cached_region : region {
    span bytes; // what it serves: the part of its allocation
    region_rest *rest = nullptr;
    uint32_t id       = 0; // where its references are counted
    uint16_t nic      = 0;
    int16_t device    = -1;           // its place in the budget
    std::atomic<bool> recent{false};  // used since eviction last looked
    std::atomic<bool> unasked{false}; // made because another NIC asked
    bool retired = false;             // out of the index, for good
    bool claimed = false;             // somebody deregisters it, or has done so
    bool revoked = false;             // claimed although somebody has it,
    bool ended   = false; // deregistered so: he gives it to the pool
    cause why    = cause::none;

    // Of nothing, no.
    bool covers(uintptr_t at, size_t count) const
    {
        return at >= bytes.lo && at < bytes.hi && count - 1 < bytes.hi - at;
    }
};
static_assert(sizeof(cached_region) == 64);

// What a range-based for needs of regions that are linked by that member.
template <cached_region *region_rest::*next>
struct linked {
    cached_region *operator*() const { return e; }
    void operator++() { e = e->rest->*next; }
    bool operator==(const linked &) const = default;

    cached_region *e = nullptr;
};

// Some regions on their way out; each is in one batch at most.
class batch {
public:
    linked<&region_rest::next_in_batch> begin() const { return {first_}; }
    linked<&region_rest::next_in_batch> end() const { return {}; }
    bool empty() const { return first_ == nullptr; }
    void push(cached_region *e)
    {
        e->rest->next_in_batch = first_;
        first_                 = e;
    }
    cached_region *pop()
    {
        cached_region *e = first_;
        if (e != nullptr) {
            first_ = e->rest->next_in_batch;
        }
        return e;
    }

private:
    cached_region *first_ = nullptr;
};

// Regions in the order in which they were added.
class region_list {
public:
    linked<&region_rest::newer> begin() const { return {oldest_}; }
    linked<&region_rest::newer> end() const { return {}; }
    size_t size() const { return size_; }
    cached_region *oldest() const { return oldest_; }
    void add(cached_region *e);
    void remove(cached_region *e);

private:
    cached_region *oldest_ = nullptr, *newest_ = nullptr;
    size_t size_ = 0;
};

// The memory of a cache's regions, and their numbers. Under the cache's lock.
class region_pool {
public:
    region_pool() = default;
    ~region_pool();
    region_pool(const region_pool &)            = delete;
    region_pool &operator=(const region_pool &) = delete;

    // One that is nobody's; nullptr without memory.
    cached_region *take();
    void give(cached_region *e);
    // In the child of a fork: goes on with numbers that the parent has not.
    void forget() { free_ = {}; }

private:
    // Regions are apart from their rests, so
    // that hits need few pages.
    struct block {
        block() = default;
        ~block();
        block(const block &)            = delete;
        block &operator=(const block &) = delete;

        block *next            = nullptr;
        uint32_t count         = 0;
        cached_region *regions = nullptr;
        region_rest *rests     = nullptr;
    };

    bool grow();

    batch free_;
    block *blocks_    = nullptr;
    uint32_t last_id_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
