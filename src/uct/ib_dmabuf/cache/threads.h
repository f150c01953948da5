// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_THREADS_H_
#define UCX_IB_DMABUF_CACHE_THREADS_H_

#include "fence.h"
#include <cstddef>
#include <cstdint>

// What each thread keeps for itself, so that using a region writes nothing
// that another thread writes: how often it took and gave back each region, and
// whether it is looking at an index right now. A record outlives its thread
// and goes on with the next one.
namespace ucx_ib_dmabuf {

// Regions have numbers in the whole process, below this.
constexpr uint32_t max_regions = steps::size(1u << 22, 1u << 8);
// Caches that count their own hits; what is beyond shares the last place.
constexpr uint32_t max_tallies = 256;

// Zeroed memory is a valid record, and its untouched pages cost nothing.
struct alignas(64) thread_record {
    atomic<uint32_t> section; // odd while the thread reads an index
    uint32_t index;           // never 0, never the same twice
    thread_record *next;
    bool taken;
    std::atomic<uint64_t> hits[max_tallies];
    // A thread which gives back what another one took counts below zero: only
    // the sum over all threads matters.
    atomic<int32_t> uses[max_regions];

    // Only the thread itself calls these.
    void add_use(uint32_t region, int32_t change)
    {
        auto &mine = uses[size_t{region}];
        mine.store(mine.load(std::memory_order_relaxed) + change,
                   fence::store_order);
    }
    void add_hit(uint32_t tally)
    {
        auto &mine = hits[size_t{tally}];
        mine.store(mine.load(std::memory_order_relaxed) + 1,
                   std::memory_order_relaxed);
    }
};

namespace threads {

// The calling thread's record; nullptr if it has none yet, or has to use full
// fences. The linker's call to find it would cost as much as the rest of a
// hit, so it is not only for the thread but in the static TLS block.
extern UCX_IB_DMABUF_PER_THREAD(thread_record *) current;

// The calling thread's record, if it has one.
thread_record *mine();
// The same, after making one; nullptr without memory.
thread_record *prepare();

// Whether no other thread has ever had a record. One that gets its first later
// sees everything that the caller wrote before it asked.
bool alone();

// Over all threads. Exact if no thread takes the region any more (docs/cache).
int64_t sum(uint32_t region);
// Of the record with that index only.
int64_t count_of(uint32_t owner, uint32_t region);
uint64_t hits(uint32_t tally);
// Zeroes the counts of these regions, which nobody uses.
void clear(uint32_t first, uint32_t count);

// Every record, newest first, as a list through `next` that only grows.
thread_record *all();

// In the child of a fork, which has one thread: nobody has ever counted.
void forget_all();
void lock_for_fork();
void unlock_after_fork();

} // namespace threads

// Between these the thread may look at what the index points to: nothing that
// was reachable when it began is reused before it ends.
template <typename Fence>
class read_section {
public:
    explicit read_section(thread_record *me)
        : section_(me->section),
          before_(section_.load(std::memory_order_relaxed))
    {
        if (!LEFT_OUT(section_mark)) {
            section_.store(before_ + 1, fence::store_order);
        }
        if (!LEFT_OUT(section_fence)) {
            Fence::light();
        }
    }
    ~read_section()
    {
        steps::left();
        section_.store(before_ + 2, fence::store_order);
    }
    read_section(const read_section &)            = delete;
    read_section &operator=(const read_section &) = delete;

private:
    atomic<uint32_t> &section_;
    const uint32_t before_;
};

} // namespace ucx_ib_dmabuf

#endif
