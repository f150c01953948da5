// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_RECLAIM_REFERENCES_H_
#define UCX_IB_DMABUF_CACHE_RECLAIM_REFERENCES_H_

#include "fence.h"
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// A reader-writer lock of which the readers write nothing that other readers
// touch ("big-reader lock"), and reference counts that these keep for
// themselves: each thread has a record with a mark that it is reading and with
// a count for every object. The writer puts up a mark of its own and waits
// until no thread reads; so what it changes needs to be neither atomic nor
// kept for a grace period, and the sum of the counts is exact.
//
// A reader marks itself and then looks for the writer; the writer marks itself
// and then looks for readers. One of them sees the other, because of the pair
// of fences in between (fence.h), of which the reader's costs nothing.
//
// Writers exclude each other by a mutex, the owner's, which is also the way
// for readers that meet a writer or have no record.
class references {
public:
    // Objects are numbered below this.
    static constexpr uint32_t max_objects = steps::size(1u << 22, 1u << 8);

    // The references that a thread has just now it counts in few cache lines:
    // of many objects, it would have to wait for the memory of each count. An
    // object has one place there, which may be another one's at the moment.
    struct hot_count { // one word, to be atomic
        uint64_t both;

        static hot_count make(uint32_t object, uint32_t count)
        {
            return {count * (uint64_t{1} << 32) + object};
        }
        uint32_t object() const { return static_cast<uint32_t>(both); }
        uint32_t count() const { return static_cast<uint32_t>(both >> 32); }
    };
    static constexpr uint32_t hot_counts = steps::size(64u, 1u);

    // Zeroed memory is a valid one, and its untouched pages cost nothing.
    struct alignas(64) record {
        atomic<uint32_t> reading;
        atomic<bool> taken; // by a living thread
        record *next;
        std::atomic<uint64_t> hits;
        // A thread that gives back what another one acquired counts below
        // zero: only the sum of both counts over all threads matters, modulo
        // 2^32, as each may go round in a long life. The hot one is changed in
        // one store, and becomes another object's at zero.
        atomic<hot_count> hot[hot_counts];
        atomic<uint32_t> counts[max_objects];

        // The rest is for the thread itself. Whoever adds up what it gives
        // back sees that it has done with the object.
        void add(uint32_t object, int32_t change)
        {
            const auto by       = static_cast<uint32_t>(change);
            auto &place         = hot[object % hot_counts];
            const hot_count now = place.load(std::memory_order_relaxed);
            // Giving back takes no place: what was acquired elsewhere would
            // hold it for good.
            if ((now.count() == 0 ? change > 0 : now.object() == object) ||
                LEFT_OUT(hot_room)) [[likely]] {
                place.store(hot_count::make(object, now.count() + by),
                            std::memory_order_release);
                return;
            }
            auto &mine = counts[size_t{object}];
            mine.store(mine.load(std::memory_order_relaxed) + by,
                       std::memory_order_release);
        }
        void count_hit()
        {
            hits.store(hits.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
        }
    };

    references();
    ~references(); // nobody uses it any more
    references(const references &)            = delete;
    references &operator=(const references &) = delete;

    // While it lives no writer changes anything, if it is true. If not, the
    // thread has no record, or there is a writer: ask under the mutex.
    class reader {
    public:
        explicit reader(references &of);
        [[gnu::always_inline]] ~reader()
        {
            if (me_ != nullptr) {
                steps::enters(steps::access::none);
                me_->reading.store(0, fence::store_order);
            }
        }
        reader(const reader &)            = delete;
        reader &operator=(const reader &) = delete;

        explicit operator bool() const { return me_ != nullptr; }
        record *operator->() const { return me_; }

    private:
        record *me_;
    };

    // While it lives nobody reads. The caller has the mutex.
    class writer {
    public:
        explicit writer(references &of);
        ~writer()
        {
            steps::enters(steps::access::none);
            of_.writing_.store(0, fence::store_order);
        }
        writer(const writer &)            = delete;
        writer &operator=(const writer &) = delete;

    private:
        references &of_;
    };

    // The calling thread's record; nullptr if it has none.
    record *mine()
    {
        const current now = of_this_thread;
        return now.owner == serial_ ? now.mine : look_up();
    }
    // The same, after making one; nullptr without memory. Takes the mutex.
    record *prepare(mutex &lock);

    // The sum of all threads' counts of an object, under the mutex: exact while
    // there is a writer; once nobody can take it any more, not below the truth;
    // else an estimate. Modulo 2^32.
    uint32_t total(uint32_t object) const;
    uint64_t hits() const;

    // In the child of a fork, which has one thread: nobody has ever counted.
    // What the parent had is left behind, as its threads were using it.
    void forget();

private:
    // What the thread used last: finding it by the key costs a call.
    struct current {
        uint64_t owner; // the serial number
        record *mine;
    };
    static UCX_IB_DMABUF_PER_THREAD(current) of_this_thread;

    static void end_of_thread(void *mine);
    record *look_up();
    bool alone();
    void wait_for_readers();

    alignas(64) atomic<uint32_t> writing_{0};
    const uint64_t serial_; // never the same twice in a process
    record *first_ = nullptr;
    const steps::thread_key key_;
};

// Looks where the thread was last only, as that takes no call: who used another
// cache since goes by prepare().
[[gnu::always_inline]] inline references::reader::reader(references &of)
{
    const current now = of_this_thread;
    if (now.owner != of.serial_) [[unlikely]] {
        me_ = nullptr;
        return;
    }
    me_ = now.mine;
    if (!LEFT_OUT(reader_mark)) {
        me_->reading.store(1, fence::store_order);
    }
    if (!LEFT_OUT(reader_fence)) {
        fence::light();
    }
    if (of.writing_.load(fence::load_order) != 0 && !LEFT_OUT(reader_look))
        [[unlikely]] {
        me_->reading.store(0, fence::store_order);
        me_ = nullptr;
        return;
    }
    steps::enters(steps::access::reads);
}

} // namespace ucx_ib_dmabuf

#endif
