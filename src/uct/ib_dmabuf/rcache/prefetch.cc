// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"

// The cache's thread registers new memory that is expected to be used. An
// operation meanwhile waits for the rest. A release meanwhile waits for
// nothing, as in every miss; finish() then deregisters.
namespace ucx_ib_dmabuf {

bool rcache::allocate(uintptr_t address, size_t length)
{
    invalidate(address, length);
    if (!prefetches_ || each_use_ || length == 0 ||
        length > settings_.chunk_size) {
        return false;
    }
    guard locked(lock_);
    if (!predictor_.note_allocation(make_range(address, length)) ||
        !start_thread(locked)) {
        return false;
    }
    deferred_changed_.notify_all();
    return true;
}

// Runs in the cache's thread.
void rcache::prefetch(guard &locked)
{
    const address_range memory = predictor_.take();
    bool is_over               = false;
    ++prefetch_;
    for (nic_id nic = 0; nic < nic_end_ && prefetches_ && !is_over; ++nic) {
        if (std::ranges::max(nics_[nic].used) == 0) {
            continue; // no GPU's memory
        }
        locked.unlock();
        entry *made               = nullptr;
        const ucs_status_t status = miss(nic, memory, effort::ahead, &made);
        locked.lock();
        if (status == UCS_OK || status == UCS_ERR_CANCELED) {
            process_counters.add("prefetches");
            process_counters.add("prefetches_unused", status != UCS_OK);
            is_over = true;
        } else if (lacks_room(status)) {
            prefetches_ = false; // before operations lack room
        }
    }
    ++prefetch_;
    changed_.notify_all();
}

// Whether described memory is to be registered ahead, with the NIC that needs
// most of such memory and its companions. Memory of pools is reused without an
// event, and VMM memory is registered by runs. A release before the work was
// listed did not mark it.
bool rcache::is_worthwhile(guard &locked, const new_registration &work) const
{
    const segment_run &memory = work.memory;
    const int device          = budget::slot(memory.device);
    const nic_slot &slot      = nics_[work.nic];
    uint32_t needed           = 1;
    for (const nic_slot &each : nics_) {
        needed = std::max(needed, each.used[device] / 2);
    }
    return !memory.joins && !memory.in_chunks && !each_use_ && prefetches_ &&
           predictor_.is_fresh(work.request) && slot.used[device] >= needed &&
           slot.index.find(work.request.lo, 1) == nullptr &&
           !others_register(locked, work.nic, memory.range);
}

// Contexts may end only while no thread calls the driver in them, and the
// process only while none calls it.
void rcache::wait_for_prefetch(guard &locked)
{
    if (!deregistering_) {
        changed_.wait(locked, [this, now = prefetch_] {
            return now % 2 == 0 || prefetch_ != now;
        });
    }
}

void rcache::stop_prefetching()
{
    prefetches_ = false;
    guard locked(lock_);
    wait_for_prefetch(locked);
}

} // namespace ucx_ib_dmabuf
