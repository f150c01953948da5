// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ENGINE_H_
#define UCX_IB_DMABUF_CACHE_ENGINE_H_

#include "budget.h"
#include "failures.h"
#include "ranges.h"
#include "region_index.h"
#include "release_log.h"
#include <array>
#include <atomic>
#include <bitset>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace ucx_ib_dmabuf {

class exports;

using nic_set = std::bitset<max_nics>;

struct nic_slot {
    region_index index;
    registrar *nic = nullptr; // nullptr: the slot is free
    bool kept      = false;   // registrar::users_keep()
    // How many of its regions of their memory were asked for, not counting
    // those that were made for it because another NIC asked.
    std::array<uint32_t, budget::max_devices> used{};
    bool inherited = false; // the parent's, before a fork
    // Regions claimed and not yet deregistered, and calls of let_go().
    unsigned busy = 0;
};

// Counted without the lock.
struct event_counts {
    std::atomic<uint64_t> hits{0}, misses{0}, host_lookups{0}, registrations{0},
        deregistrations{0}, exports{0}, identity_checks{0}, identity_misses{0},
        invalidations{0}, evictions{0}, failures{0};
};

// What there was of a GPU and of a NIC, in bytes, beside what was tried.
struct attempt {
    uint64_t time     = 0; // of the release log
    size_t mapped     = 0;
    size_t registered = 0;
};

// What one export has led to. Room for it is reserved in the budget.
struct registered {
    bool mapped    = false; // and no region has taken over the mapping
    bool by_memory = false; // what failed was the export
    span range;
    cache::nic_id nic[max_nics];
    void *handle[max_nics];
    unsigned count = 0;
};

// A registration that is being made, without the lock, for one miss. On its
// maker's stack; others see it when it has begun.
struct pending {
    pending(cache::nic_id with, span asked, cache::effort how)
        : nic(with), request(asked),
          persistent(how == cache::effort::persistent)
    {
    }

    const cache::nic_id nic;
    const span request;
    const bool persistent; // cache::effort
    bool exact = false;    // what is tried are the pages of the request
    memory_run memory;
    registered made;
    attempt tried;                  // the latest
    std::optional<attempt> refused; // the first, if there was no room

    // Under the lock.
    span range;            // that others need not register meanwhile
    nic_set nics;          // with which
    bool released = false; // some of the memory went meanwhile
    pending *next = nullptr;

    // Nothing else can be tried instead.
    bool insists() const { return exact && persistent; }
};

// Of which NICs users may keep what was retired, and where that lies.
struct kept_regions {
    nic_set nics;
    ranges where;
};

// The inside of a cache. Functions that take a `guard` are called with the
// lock held; "releases the lock" says which of them give it up for a while. The
// others take it themselves, if they need it. docs/cache.md explains the whole.
//
// Among each other these functions have two errors more than the cache:
// UCS_ERR_CANCELED, memory was released meanwhile, and UCS_INPROGRESS,
// something has been done: the caller describes the memory again.
class engine {
public:
    using nic_id = cache::nic_id;
    using guard  = std::unique_lock<std::mutex>;

    engine(exporter &memory, const cache_settings &settings);
    ~engine();
    engine(const engine &)            = delete;
    engine &operator=(const engine &) = delete;

    nic_id attach(registrar &nic);
    void detach(nic_id nic);
    cached_region *find(nic_id nic, uintptr_t address, size_t length) noexcept;
    ucs_status_t get(nic_id nic, uintptr_t address, size_t length,
                     const region **out, cache::effort how);
    void put(cached_region *used) noexcept;
    void invalidate(span range, bool surely = false);
    void drop(nic_id nic);
    bool is_revoked(const cached_region *e);
    bool flush();
    void check_identity();
    bool needs_each_use() const { return each_use_; }
    void read_counters(cache_counters *out);

private:
    friend class fork_handler;

    // get.cc
    void acquire(guard &, cached_region *e);
    bool is_current(const cached_region &e, span request);
    ucs_status_t miss(nic_id nic, span request, cache::effort how,
                      cached_region **out);
    ucs_status_t begin(pending *work, uint64_t time, cached_region **out);
    bool retire_stale(guard &, const memory_run &memory,
                      span range); // releases the lock
    bool others_pending(guard &, nic_id nic, span range) const;
    span free_around(guard &, nic_id nic, span memory, span request) const;
    void end(pending *work);

    // register.cc
    ucs_status_t make(pending *work, cached_region **out);
    ucs_status_t try_range(pending *work);
    ucs_status_t prepare(pending *work);
    nic_set add_companions(guard &, const pending &work);
    ucs_status_t export_and_register(pending *work);
    ucs_status_t register_with(nic_id nic, exports *memory, pending *work);
    bool still_current(const memory_run &memory);
    ucs_status_t publish(pending *work, cached_region **out);
    cached_region *add_regions(guard &, pending *work, batch *replaced);
    cached_region *add_region(guard &, const pending &work, unsigned i,
                              batch *replaced);
    void note_failure(pending *work, ucs_status_t status);

    // evict.cc
    void learn_limit(guard &, int device); // releases the lock
    shortage left_after(guard &, shortage lacking);
    void choose(guard &, cached_region *e, shortage *lacking, batch *out);
    void choose_mapping(guard &, cached_region *e, shortage *lacking,
                        batch *out);
    void choose_overlapping(guard &, nic_id nic, span range, shortage *lacking,
                            batch *out);
    void choose_oldest(guard &, shortage *lacking, batch *out);
    void evict_chosen(guard &, batch *victims); // releases the lock
    bool wait_for_leaving(guard &);             // releases the lock
    attempt beside(guard &, const pending &work) const;
    ucs_status_t refused(guard &, const pending &work, shortage *lacking);
    ucs_status_t reserve(guard &, const pending &work); // releases the lock
    void note_refusal(guard &, const pending &work, ucs_status_t status);
    void evict_down_to(guard &, const pending &work,
                       const attempt &left); // releases the lock
    bool make_room(pending *work, ucs_status_t status);

    // retire.cc
    void retire(guard &, cached_region *e, cause why);
    size_t claim_unused(guard &, batch *retired, span released = {});
    size_t retire_all(guard &, batch *chosen, cause why, span released = {});
    void claim(guard &, cached_region *e, batch *out);
    void call_dereg(nic_id nic, void *handle, span range, const char *why);
    void deregister(batch *claimed);
    void deregister_soon(batch *claimed);

    kept_regions kept_of(guard &, const batch &retired);
    void keep(guard &, kept_regions *result, const cached_region *e);
    void ask_back(const kept_regions &kept);
    void need_each_use();

    // defer.cc
    bool defer(batch *claimed);
    void run_deferred();
    void stop_deferred();

    // Calls with each region, of whichever NIC, that serves some of the range.
    template <typename Call>
    void each_region(guard &, span range, Call call) const
    {
        for (nic_id nic = 0; nic < nic_end_; ++nic) {
            nics_[nic].index.each(range, call);
        }
    }
    void warn(const char *message)
    {
        if (settings_.warn) {
            settings_.warn(message);
        }
    }
    // With max_nics: all of them.
    void trace(const char *what, nic_id nic, span range,
               ucs_status_t status = UCS_OK, const char *why = nullptr) const
    {
        if (settings_.trace) {
            settings_.trace({what, why, status,
                             nic < max_nics ? nics_[nic].nic : nullptr,
                             range.lo, range.size()});
        }
    }

    // engine.cc
    void deregister_all(guard &, nic_id nic); // releases the lock
    void forget();

    exporter &memory_;
    const cache_settings settings_;
    const size_t granularity_;
    std::atomic<bool> check_identity_;
    std::atomic<bool> each_use_;

    std::mutex lock_;
    std::condition_variable changed_; // pending_ got shorter, or busy less
    nic_slot nics_[max_nics];
    nic_id nic_end_ = 0; // above all that are attached
    release_log log_;
    budget budget_;
    region_list lru_;     // what is in an index, least recently used first
    region_list retired_; // what has left it but is in use
    region_list leaving_; // claimed, and not deregistered yet
    pending *pending_ = nullptr;
    failures failures_;
    refusals refusals_;
    uint64_t uses_       = 0; // how many there have been, as the next
    uint64_t claims_     = 0;
    uint32_t generation_ = 0; // how many forks ago it was made

    // Deregistration that would block a release. Under the lock.
    struct {
        batch waiting;
        std::thread thread;
        bool running = false, stop = false;
    } deferred_;
    std::condition_variable deferred_changed_;

    // This thread is in a registrar's dereg: what it calls there is not to wait
    // for what this very thread, or one that waits for it, deregisters. In the
    // static TLS block, which needs no memory later.
    static constinit thread_local bool deregistering_
        [[gnu::tls_model("initial-exec")]];

    engine *next_ = nullptr; // engine.cc; from before it is in that list
    event_counts count_;
};

} // namespace ucx_ib_dmabuf

#endif
