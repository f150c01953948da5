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
    static constexpr uint32_t hot_counts = steps::size(64u, 1u);
    // One word, to be atomic: the object in the upper half, its count below.
    using hot_count = uint64_t;
    static uint32_t object_in(hot_count hot)
    {
        return static_cast<uint32_t>(hot >> 32);
    }
    static uint32_t count_in(hot_count hot)
    {
        return static_cast<uint32_t>(hot);
    }

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
            auto &place        = hot[object % hot_counts];
            hot_count now      = place.load(std::memory_order_relaxed);
            const bool is_free = count_in(now) == 0;

            // Giving back takes no place: what was acquired elsewhere would
            // hold it for good.
            if (is_free && change > 0) {
                now = hot_count{object} << 32;
            } else if ((is_free || object_in(now) != object) &&
                       !LEFT_OUT(hot_room)) [[unlikely]] {
                auto &cold = counts[size_t{object}];
                cold.store(cold.load(std::memory_order_relaxed) +
                               static_cast<uint32_t>(change),
                           std::memory_order_release);
                return;
            }
            // A count that goes round to zero carries into the object, whose
            // the place is not any more.
            place.store(now + static_cast<hot_count>(int64_t{change}),
                        std::memory_order_release);
        }
        void count_hit()
        {
#ifndef UNCOUNTED_HITS // by which the benchmark sees what this costs
            hits.store(hits.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
#endif
        }
    };

    references();
    ~references(); // nobody uses it any more
    references(const references &)            = delete;
    references &operator=(const references &) = delete;

    // Where the first look does not do, there is a call.
    enum looks : bool { first_look, both_looks };

    // While it lives no writer changes anything, if it is true. If not, the
    // thread has no record, or there is a writer: ask under the mutex.
    class reader {
    public:
        explicit reader(references &of, looks how = both_looks);
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
            of_.writing_.store(nobody(), fence::store_order);
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

    // What readers look at, all in one word: a writer, or that they need a full
    // fence before they look. Mostly nothing.
    enum : uint32_t { nothing, writer_is_there, fence_is_needed };
    static uint32_t nobody()
    {
        return fence::asymmetric ? nothing : fence_is_needed;
    }
    bool may_read() const;

    static void end_of_thread(void *mine);
    record *look_up();
    bool alone();
    void wait_for_readers();

    alignas(64) atomic<uint32_t> writing_{nobody()};
    const uint64_t serial_; // never the same twice in a process
    record *first_ = nullptr;
    const steps::thread_key key_;
};

// Looks where the thread was last only, as that takes no call: who used another
// cache since goes by prepare().
[[gnu::always_inline]] inline references::reader::reader(references &of,
                                                         looks how)
{
    const current now = of_this_thread;
    if (now.owner != of.serial_) [[unlikely]] {
        me_ = nullptr;
        return;
    }
    me_ = now.mine;
    if (me_ == nullptr) {
        __builtin_unreachable(); // who uses the reader asks once less
    }
    if (!LEFT_OUT(reader_mark)) {
        me_->reading.store(1, fence::store_order);
    }
    if (!LEFT_OUT(reader_fence)) {
        fence::light_if_asymmetric();
    }
    if (of.writing_.load(fence::load_order) != nothing &&
        !(how == both_looks && of.may_read()) && !LEFT_OUT(reader_look))
        [[unlikely]] {
        me_->reading.store(0, fence::store_order);
        me_ = nullptr;
        return;
    }
    steps::enters(steps::access::reads);
}

} // namespace ucx_ib_dmabuf

#endif
