// SPDX-License-Identifier: BSD-3-Clause
#include "references.h"

namespace ucx_ib_dmabuf {

UCX_IB_DMABUF_PER_THREAD(references::current) references::of_this_thread;

static uint64_t next_serial()
{
    static std::atomic<uint64_t> last{0};
    return ++last;
}

references::references() : serial_(next_serial()), key_(end_of_thread) {}

references::~references()
{
    while (record *gone = first_) {
        first_ = gone->next;
        steps::unmap(gone, sizeof(record));
    }
}

// The record, and what was counted in it, goes on with the next thread. C++'s
// thread_local destructors would not see what later ones of them do; a key's
// destructor runs again for these.
void references::end_of_thread(void *mine)
{
    of_this_thread = current{};
    static_cast<record *>(mine)->taken.store(false, std::memory_order_release);
}

references::record *references::look_up()
{
    auto *found = static_cast<record *>(key_.get());
    if (found != nullptr) {
        of_this_thread = current{serial_, found};
    }
    return found;
}

references::record *references::prepare(mutex &lock)
{
    record *found = mine();
    if (found != nullptr) {
        return found;
    }
    {
        std::lock_guard<mutex> locked(lock);
        found = first_;
        while (found != nullptr &&
               found->taken.exchange(true, std::memory_order_acquire)) {
            found = found->next;
        }
    }
    if (found == nullptr) {
        found = static_cast<record *>(steps::map_zeroed(sizeof(record)));
        if (found == nullptr) {
            return nullptr;
        }
        found->taken = true;
        std::lock_guard<mutex> locked(lock);
        found->next = first_;
        first_      = found;
    }
    if (!key_.set(found)) {
        found->taken = false;
        return nullptr;
    }
    of_this_thread = current{serial_, found};
    return found;
}

// Whether no other thread has a record. One that gets its first later takes
// the mutex for it.
bool references::alone()
{
    return first_ == nullptr || (first_->next == nullptr &&
                                 (first_ == mine() || LEFT_OUT(alone_mine)));
}

// Whether there is no writer, by a reader who has seen that he has to look
// twice.
bool references::may_read() const
{
    if (!LEFT_OUT(reader_fence)) {
        fence::light();
    }
    return writing_.load(fence::load_order) != writer_is_there;
}

references::writer::writer(references &of) : of_(of)
{
    if (!LEFT_OUT(writer_mark)) {
        of.writing_.store(writer_is_there, fence::store_order);
    }
    if (!of.alone()) {
        of.wait_for_readers();
    }
    steps::enters(steps::access::changes);
}

void references::wait_for_readers()
{
    if (!LEFT_OUT(writer_fence)) {
        fence::heavy();
    }
    for (record *each = first_; each != nullptr; each = each->next) {
        steps::until([each] {
            return each->reading.load(fence::load_order) == 0 ||
                   LEFT_OUT(writer_wait);
        });
    }
}

uint32_t references::total(uint32_t object) const
{
    uint32_t sum = 0;
    for (record *each = first_; each != nullptr; each = each->next) {
        const hot_count now =
            each->hot[object % hot_counts].load(std::memory_order_acquire);
        if (object_in(now) == object && !LEFT_OUT(hot_sum)) {
            sum += count_in(now);
        }
        if (!LEFT_OUT(cold_sum)) {
            sum += each->counts[object].load(std::memory_order_acquire);
        }
    }
    return sum;
}

uint64_t references::hits() const
{
    uint64_t sum = 0;
    for (record *each = first_; each != nullptr; each = each->next) {
        sum += each->hits.load(std::memory_order_relaxed);
    }
    return sum;
}

void references::forget()
{
    first_   = nullptr;
    writing_ = nobody();
    key_.set(nullptr);
    of_this_thread = current{};
}

} // namespace ucx_ib_dmabuf
