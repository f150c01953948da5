// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"

// The cache's thread registers new memory that is expected to be used. An
// operation meanwhile waits for the rest. A release meanwhile waits for
// nothing, as in every miss; finish() then deregisters.
namespace ucx_ib_dmabuf {

bool rcache::allocate(uintptr_t address, size_t length)
{
    const address_range memory = make_range(address, length);
    if (!prefetches_ || each_use_ || memory.empty() ||
        length > settings_.chunk_size) {
        return false;
    }
    guard locked(lock_);
    bool expected = prefetches_ && predictor_.expects(memory);
    if (expected && !start_thread(locked)) {
        expected    = false;
        prefetches_ = prefetches_ && deferred_.starting; // else there is none
    }
    predictor_.watch(memory, expected);
    if (expected) {
        deferred_changed_.notify_all();
    }
    return expected;
}

// Runs in the cache's thread. The work is listed as it is chosen: no release in
// between is missed.
void rcache::prefetch(guard &locked)
{
    new_registration work{.request = predictor_.take(), .ahead = true};
    entry *made = nullptr;
    list(locked, &work);
    ++prefetch_;
    locked.unlock();
    ucs_status_t status;
    {
        const auto context = memory_.keep_context(work.request.lo);
        status             = perform(&work, &made);
    }
    locked.lock();
    ++prefetch_;
    // Memory that was released earlier may have been used before that.
    const bool in_vain = work.in_vain && work.nics.any();
    if (status == UCS_OK || in_vain) {
        process_counters.add("prefetches");
        process_counters.add("prefetches_unused", in_vain);
    }
    if (in_vain) {
        ++batches_;
        predictor_.note(predictor::fate::unused, work.request, true);
    } else if (status != UCS_OK) {
        predictor_.note(predictor::fate::unknown, work.request, true);
        // Stops before operations lack room.
        prefetches_ = prefetches_ && !lacks_room(status);
    }
    changed_.notify_all();
}

// Chooses the NIC that needs most of such memory, for described memory that is
// to be registered ahead. Returns false if there is none. Memory of pools is
// reused without an event, and VMM memory is registered by runs.
bool rcache::choose_nic(guard &locked, new_registration *work) const
{
    const segment_run &memory = work->memory;
    const int device          = budget::slot(memory.device);
    const auto *most =
        std::max_element(nics_, nics_ + nic_end_,
                         [device](const nic_slot &a, const nic_slot &b) {
                             return a.used[device] < b.used[device];
                         });
    work->nic = nic_id(most - nics_);
    return !memory.joins && !memory.in_chunks && !each_use_ && prefetches_ &&
           most->used[device] > 0 &&
           most->index.find(work->request.lo, 1) == nullptr &&
           !others_register(locked, work->nic, memory.range);
}

// A context may be destroyed only while no thread calls the driver in it, and
// the process may end only while none calls it. The driver or a NIC may hang,
// or wait for this thread. Then the caller goes on, later ones do not wait, and
// finish() drops the result.
void rcache::wait_for_prefetch(guard &locked)
{
    const auto is_over = [this, now = prefetch_] {
        return now % 2 == 0 || prefetch_ != now;
    };
    if (prefetches_ && !deregistering_ &&
        !changed_.wait_until(
            locked, std::chrono::system_clock::now() + settings_.patience,
            is_over)) {
        prefetches_ = false;
    }
}

void rcache::leave_driver()
{
    guard locked(lock_);
    predictor_.stop_waiting();
    wait_for_prefetch(locked);
}

// A signal's handler may call exit() while its thread holds the lock, or waits
// for `changed_`. A deregistration may hang, or wait for this thread.
void rcache::stop_thread()
{
    using std::chrono::milliseconds;
    auto limit     = milliseconds(100); // for the lock
    bool registers = false;

    // Time in which this thread did not run does not count.
    for (milliseconds waited{0}; waited < limit;
         ++waited, std::this_thread::sleep_for(milliseconds(1))) {
        const guard locked(lock_, std::try_to_lock);
        if (locked) {
            registers |= prefetches_.exchange(false);
            deferred_.over     = true;
            limit              = settings_.patience;
            const bool is_idle = deferred_.waiting.empty() && !deferred_.busy &&
                                 !(registers && prefetch_ % 2 != 0);
            if (is_idle || deregistering_) {
                return;
            }
        }
    }
    prefetches_ = false;
}

// An operation lacks room: memory that was registered ahead and not used goes
// first. Returns whether there may have been any.
bool rcache::give_up_ahead()
{
    guard locked(lock_);
    const bool is_busy = prefetches_ && prefetch_ % 2 != 0;
    wait_for_prefetch(locked);
    prefetches_ = false;
    entry_chain unused;
    for (export_group *group : lru_) {
        for (entry &e : group->cached) {
            if (!group->ahead.empty()) {
                unused.push(&e);
            }
        }
    }
    return evict(locked, unused) || is_busy;
}

} // namespace ucx_ib_dmabuf
