// SPDX-License-Identifier: BSD-3-Clause
#include "threads.h"
#include <pthread.h>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::threads {

UCX_IB_DMABUF_PER_THREAD(thread_record *) current;

// The same, but also for those with full fences.
static UCX_IB_DMABUF_PER_THREAD(thread_record *) record_of_mine;

static void set_mine(thread_record *record)
{
    record_of_mine = record;
    current        = fence::asymmetric ? record : nullptr;
}

thread_record *mine()
{
    return record_of_mine;
}

namespace {

mutex lock;
atomic<thread_record *> first{nullptr};
uint32_t last_index = 0;

// Tells when a thread ends. C++'s thread_local destructors would not see what
// later ones of them do; a key's destructor runs again for these.
struct end_of_thread {
    pthread_key_t key;
    bool works;

    end_of_thread() : works(pthread_key_create(&key, give_back) == 0) {}
    ~end_of_thread()
    {
        if (works) {
            works = false; // threads may still come, at the process's end
            pthread_key_delete(key);
        }
    }
    end_of_thread(const end_of_thread &)            = delete;
    end_of_thread &operator=(const end_of_thread &) = delete;

    static void give_back(void *record)
    {
        std::lock_guard<mutex> locked(lock);
        static_cast<thread_record *>(record)->taken = false;
        set_mine(nullptr);
    }
} at_end;

thread_record *unused()
{
    thread_record *record = first.load(std::memory_order_relaxed);
    while (record != nullptr && record->taken) {
        record = record->next;
    }
    return record;
}

thread_record *make()
{
    void *memory = mmap(nullptr, sizeof(thread_record), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    auto *record  = static_cast<thread_record *>(memory);
    record->index = ++last_index;
    record->next  = first.load(std::memory_order_relaxed);
    first.store(record, std::memory_order_release);
    return record;
}

} // namespace

thread_record *prepare()
{
    if (mine() != nullptr) {
        return mine();
    }
    std::lock_guard<mutex> locked(lock);
    thread_record *record = unused();
    if (record == nullptr) {
        record = make();
    }
    if (record != nullptr) {
        record->taken = true;
        set_mine(record);
        if (at_end.works) {
            pthread_setspecific(at_end.key, record);
        }
    }
    return record;
}

bool alone()
{
    std::lock_guard<mutex> locked(lock);
    thread_record *record = first.load(std::memory_order_relaxed);
    return record == nullptr || (record == mine() && record->next == nullptr);
}

thread_record *all()
{
    return first.load(std::memory_order_acquire);
}

int64_t sum(uint32_t region)
{
    int64_t total = 0;
    for (auto *record = all(); record != nullptr; record = record->next) {
        total += record->uses[region].load(fence::load_order);
    }
    return total;
}

int64_t count_of(uint32_t owner, uint32_t region)
{
    thread_record *record = mine();
    if (record == nullptr || record->index != owner) {
        record = all();
        while (record != nullptr && record->index != owner) {
            record = record->next;
        }
    }
    return record == nullptr ? 0 : record->uses[region].load(fence::load_order);
}

uint64_t hits(uint32_t tally)
{
    uint64_t total = 0;
    for (auto *record = all(); record != nullptr; record = record->next) {
        total += record->hits[tally].load(std::memory_order_relaxed);
    }
    return total;
}

void clear(uint32_t first_region, uint32_t count)
{
    for (auto *record = all(); record != nullptr; record = record->next) {
        for (uint32_t i = first_region; i < first_region + count; ++i) {
            // Not to touch pages for nothing.
            if (record->uses[i].load(std::memory_order_relaxed) != 0) {
                record->uses[i].store(0, std::memory_order_relaxed);
            }
        }
    }
}

void forget_all()
{
    // Left behind, not freed: the parent's threads may have been using it.
    first = nullptr;
    set_mine(nullptr);
    if (at_end.works) {
        pthread_setspecific(at_end.key, nullptr);
    }
}

void lock_for_fork()
{
    lock.lock();
}

void unlock_after_fork()
{
    lock.unlock();
}

} // namespace ucx_ib_dmabuf::threads
