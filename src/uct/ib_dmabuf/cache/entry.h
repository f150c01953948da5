// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ENTRY_H_
#define UCX_IB_DMABUF_CACHE_ENTRY_H_

#include "cache.h"
#include "span.h"
#include "threads.h"

namespace ucx_ib_dmabuf {

// A region as the cache knows it; one cache line, which is all a hit reads of
// it and, but for a mark now and then, writes to nothing of it. In the index
// until it leaves; deregistered by whoever finds it unused after that. The
// memory of an entry is never given back, only reused for another region.
struct alignas(64) entry : region {
    span bytes;            // what it serves: the part of its allocation
    uint64_t identity = 0; // of the allocation
    uint32_t id       = 0; // where it lies, and where its uses are counted
    // Index of the record of the thread that made it. While it isn't shared
    // only that thread takes it and gives it back.
    uint32_t owner = 0;
    atomic<uint16_t> marks{0};
    uint16_t nic   = 0;
    int16_t device = -1;
    bool claimed   = false; // somebody deregisters it, or has done so

    enum : uint16_t {
        leaving = 1, // out of the index, for good
        recent  = 2, // used since eviction last looked
        checked = 4, // hits are checked by identity
        shared  = 8,
    };
    bool has(uint16_t mark) const
    {
        return (marks.load(std::memory_order_relaxed) & mark) != 0;
    }
    void set(uint16_t mark) { marks.fetch_or(mark); }

    bool covers(uintptr_t at, size_t count) const
    {
        return at >= bytes.lo && at < bytes.hi && count - 1 < bytes.hi - at;
    }
    // Whether the thread may take it without the lock.
    bool is_of(const thread_record *me) const
    {
        return owner == me->index || has(shared);
    }
};
static_assert(sizeof(entry) == 64);

// Entries are made by the block, which belongs to one cache at a time.
constexpr uint32_t block_shift = steps::size(10, 4);
constexpr uint32_t block_size  = 1u << block_shift;
constexpr uint32_t max_blocks  = max_regions / block_size;

// What hits don't need to know of an entry.
struct entry_links {
    // Neighbours in the list that it is in, by id; 0: none.
    uint32_t older = 0;
    uint32_t newer = 0;
    // What the identity is of: the allocation, or the VMM segments that were
    // asked for together.
    span memory;
    // The next one of the same export, by id; itself, if there is no other.
    uint32_t sibling = 0;
    // Uses by threads for which there was no memory to count them.
    int32_t extra_uses = 0;
#if ENABLE_ASSERT
    std::atomic<int32_t> checked_uses{0};
#endif
};

struct entry_block {
    entry entries[block_size];
    entry_links links[block_size];
};

namespace entries {

// By block number. Grows only.
extern entry_block *blocks[max_blocks];

inline entry *at(uint32_t id)
{
    return id == 0 ? nullptr
                   : &blocks[id >> block_shift]->entries[id % block_size];
}

inline entry_links &links(const entry *e)
{
    return blocks[e->id >> block_shift]->links[e->id % block_size];
}

// How often it is taken. Under the cache's lock. While another thread may take
// it: an estimate.
inline int64_t uses(const entry *e)
{
    return links(e).extra_uses + (e->has(entry::shared)
                                      ? threads::sum(e->id)
                                      : threads::count_of(e->owner, e->id));
}

// In debug builds, says which region was given back too often, and aborts.
#if ENABLE_ASSERT
void check_taken(const entry *e);
void check_given_back(const entry *e);
#else
inline void check_taken(const entry *) {}
inline void check_given_back(const entry *) {}
#endif

// False if the process was forked since the entry was made: it is the
// parent's.
bool ours(const entry *e);

// The entries of one cache. Under its lock.
class pool {
public:
    pool() = default;
    ~pool();
    pool(const pool &)            = delete;
    pool &operator=(const pool &) = delete;

    // An entry that is nobody's; nullptr without memory.
    entry *take();
    void give(entry *e);
    // In the child of a fork.
    void forget();

private:
    bool grow();

    uint32_t free_  = 0; // first of those linked by `newer`
    uint32_t count_ = 0;
    uint16_t owned_[max_blocks];
};

void lock_for_fork();
void unlock_after_fork(bool child);

} // namespace entries

// Some entries on their way out; each is in one such list at most.
class entry_list {
public:
    bool empty() const { return first_ == 0; }
    void push(entry *e)
    {
        entries::links(e).newer = first_;
        first_                  = e->id;
    }
    entry *pop()
    {
        entry *e = entries::at(first_);
        if (e != nullptr) {
            first_ = entries::links(e).newer;
        }
        return e;
    }
    entry *first() const { return entries::at(first_); }
    static entry *next(entry *e)
    {
        return entries::at(entries::links(e).newer);
    }

private:
    uint32_t first_ = 0;
};

// Entries in the order in which they were added.
class age_list {
public:
    size_t size() const { return size_; }
    entry *oldest() const { return entries::at(oldest_); }
    entry *newest() const { return entries::at(newest_); }
    static entry *newer(entry *e)
    {
        return entries::at(entries::links(e).newer);
    }
    void add(entry *e);
    void remove(entry *e);

private:
    uint32_t oldest_ = 0, newest_ = 0;
    size_t size_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
