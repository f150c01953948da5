// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include <new>
#include <pthread.h>

// The child of a fork has the parent's tables but not its registrations, and
// only the thread that forked. It starts with nothing: whatever the parent had
// is left behind where it is, so that this costs the same however much it is.
// A region of the parent that is given back in the child is told by its
// generation.
namespace ucx_ib_dmabuf {

class fork_handler {
public:
    static void add(engine *e)
    {
        // Once, and before there is anything to protect.
        [[maybe_unused]] static int once =
            pthread_atfork(before, in_parent, in_child);
        std::lock_guard<std::mutex> locked(lock_);
        e->next_ = engines_;
        engines_ = e;
    }

    static void remove(engine *e)
    {
        std::lock_guard<std::mutex> locked(lock_);
        engine **link = &engines_;
        while (*link != e) {
            link = &(*link)->next_;
        }
        *link = e->next_;
    }

private:
    static void before()
    {
        lock_.lock();
        for (engine *e = engines_; e != nullptr; e = e->next_) {
            e->lock_.lock();
        }
    }

    static void in_parent()
    {
        for (engine *e = engines_; e != nullptr; e = e->next_) {
            e->lock_.unlock();
        }
        lock_.unlock();
    }

    static void in_child()
    {
        for (engine *e = engines_; e != nullptr; e = e->next_) {
            e->forget();
        }
        in_parent();
    }

    static std::mutex lock_;
    static engine *engines_;
};

std::mutex fork_handler::lock_;
engine *fork_handler::engines_ = nullptr;

engine::engine(exporter &memory, const cache_settings &settings)
    : check_identity_(settings.check_identity),
      each_use_(settings.check_identity || settings.max_regions != SIZE_MAX),
      memory_(memory), settings_(settings), granularity_(memory.granularity()),
      budget_(settings.max_regions)
{
    fork_handler::add(this);
}

engine::~engine()
{
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        detach(nic);
    }
    stop_deferred();
    fork_handler::remove(this);
}

void engine::forget()
{
    references_.forget();
    for (nic_slot &slot : nics_) {
        slot.index.forget();
        slot.inherited = slot.nic != nullptr;
        slot.forget_uses();
        slot.busy = 0;
    }
    // Threads that waited on them are not there any more.
    new (&changed_) condition_variable;
    new (&deferred_changed_) condition_variable;
    deferred_ = {};
    budget_   = budget(settings_.max_regions);
    failures_.clear();
    refusals_.clear();
    pool_.forget();
    lru_     = {};
    retired_ = {};
    leaving_ = {};
    pending_ = nullptr;
    ++generation_;
    new (&count_) event_counts;
}

} // namespace ucx_ib_dmabuf
