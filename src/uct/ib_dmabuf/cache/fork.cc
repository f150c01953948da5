// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"
#include <new>
#include <pthread.h>

// The child of a fork has the parent's tables but not its registrations, and
// only the thread that forked. It starts with nothing: whatever the parent had
// is left behind where it is, so that this costs the same however much it is.
// A region of the parent that is given back in the child is told by its block.
namespace ucx_ib_dmabuf {

class fork_handler {
public:
    // Returns the lowest place for hits that is free.
    static uint32_t add(engine *e)
    {
        // Once, and before there is anything to protect.
        [[maybe_unused]] static int once =
            pthread_atfork(before, in_parent, in_child);
        std::lock_guard<std::mutex> locked(lock_);
        uint32_t tally = 0;
        while (tally < max_tallies - 1 && in_use_[tally]) {
            ++tally;
        }
        in_use_[tally] = true;
        e->next_       = engines_;
        engines_       = e;
        return tally;
    }

    static void remove(engine *e)
    {
        std::lock_guard<std::mutex> locked(lock_);
        engine **link = &engines_;
        while (*link != e) {
            link = &(*link)->next_;
        }
        *link              = e->next_;
        in_use_[e->tally_] = false;
    }

private:
    static void before()
    {
        lock_.lock();
        for (engine *e = engines_; e != nullptr; e = e->next_) {
            e->lock_.lock();
        }
        entries::lock_for_fork();
        threads::lock_for_fork();
    }

    static void after(bool child)
    {
        threads::unlock_after_fork();
        entries::unlock_after_fork(child);
        for (engine *e = engines_; e != nullptr; e = e->next_) {
            e->lock_.unlock();
        }
        lock_.unlock();
    }

    static void in_parent() { after(false); }

    static void in_child()
    {
        threads::forget_all();
        for (engine *e = engines_; e != nullptr; e = e->next_) {
            e->forget();
        }
        after(true);
    }

    static std::mutex lock_;
    static engine *engines_;
    static std::bitset<max_tallies> in_use_;
};

std::mutex fork_handler::lock_;
engine *fork_handler::engines_ = nullptr;
std::bitset<max_tallies> fork_handler::in_use_;

engine::engine(exporter &memory, const cache_settings &settings)
    : memory_(memory), settings_(settings), granularity_(memory.granularity()),
      check_identity_(settings.check_identity), budget_(settings.max_regions),
      tally_(fork_handler::add(this)), hits_before_(threads::hits(tally_))
{
}

engine::~engine()
{
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        detach(nic);
    }
    fork_handler::remove(this);
}

void engine::forget()
{
    for (nic_slot &slot : nics_) {
        slot.map.forget();
        slot.inherited = slot.verbs != nullptr;
        slot.serves.reset();
        slot.unsupported = {};
        slot.busy        = 0;
    }
    // Threads that waited on it are not there any more.
    new (&changed_) condition_variable;
    budget_.reset();
    failures_.clear();
    refusals_.clear();
    survey_ = {};
    limbo_.forget();
    pool_.forget();
    ages_        = {};
    lingering_   = {};
    in_flight_   = nullptr;
    hits_before_ = 0;
    for (event_count *each :
         {&count_.locked_hits, &count_.false_hits, &count_.misses,
          &count_.registrations, &count_.deregistrations, &count_.exports,
          &count_.identity_checks, &count_.identity_misses,
          &count_.invalidations, &count_.evictions, &count_.failures}) {
        each->store(0);
    }
    host_lookups_.reset();
}

} // namespace ucx_ib_dmabuf
