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
    const bool expected =
        predictor_.expects(memory) && start_prefetching(locked);
    predictor_.watch(memory, expected);
    if (expected) {
        deferred_changed_.notify_all();
    }
    return expected;
}

// Two threads may both be first.
bool rcache::start_prefetching(guard &locked)
{
    if (!deferred_.may_prefetch) {
        locked.unlock();
        const bool may = settings_.begin_prefetching();
        locked.lock();
        deferred_.may_prefetch = may;
        prefetches_            = prefetches_ && may;
    }
    return prefetches_ && start_thread(locked);
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
    const ucs_status_t status = perform(&work, &made);
    locked.lock();
    ++prefetch_;
    // Memory that was released earlier may have been used before that.
    const bool in_vain = (status == UCS_ERR_CANCELED) && work.nics.any();
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

// Contexts may end only while no thread calls the driver in them, and the
// process only while none calls it. The driver or a NIC may hang, or wait for
// this thread. Then the caller goes on, and the memory is not used.
void rcache::wait_for_prefetch(guard &locked)
{
    const auto is_over = [this, now = prefetch_] {
        return now % 2 == 0 || prefetch_ != now;
    };
    if (deregistering_ || changed_.wait_until(locked,
                                              std::chrono::system_clock::now() +
                                                  settings_.patience,
                                              is_over)) {
        return;
    }
    prefetches_ = false;
    for (auto *work = in_progress_; work != nullptr; work = work->next) {
        work->released |= work->ahead;
    }
}

void rcache::leave_driver()
{
    if (!settings_.prefetch) {
        return; // UCX releases a context after each copy
    }
    guard locked(lock_);
    predictor_.stop_waiting();
    wait_for_prefetch(locked);
}

void rcache::stop_prefetching()
{
    prefetches_ = false;
    leave_driver();
}

} // namespace ucx_ib_dmabuf
