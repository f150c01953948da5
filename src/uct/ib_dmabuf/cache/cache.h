// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "failures.h"
#include "pending.h"
#include "release_log.h"
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ucx_ib_dmabuf {

class exports;

// Something that the cache did outside of a hit, for a trace.
struct cache_event {
    const char *what;  // "acquire", "export", "register", "deregister",
                       // "invalidate"
    const char *cause; // of what leaves; or nullptr
    ucs_status_t status;
    const registrar *nic; // nullptr: all of them
    uintptr_t address;
    size_t length; // bytes
};

struct cache_settings {
    // Allocations larger than this many bytes are registered in chunks of
    // this size, aligned to it or to half of it. A power of two.
    size_t chunk_size = size_t{4} << 30;
    // Limits of what stays registered, over all NICs together.
    size_t max_regions = SIZE_MAX;
    // Bytes per GPU; SIZE_MAX: no limit. Asked by the first user of each GPU,
    // or by several at once; always the same.
    std::function<size_t(int device)> max_bytes;
    // Where as many bytes lose their memory at a time, a thread of the cache's
    // deregisters them instead of the one that releases it.
    size_t deferred_size = size_t{2} << 20;
    // Every hit is checked by identity: the events are not complete.
    bool check_identity = false;
    // Told why something was declined, for the log: for each cause the same
    // text, each time that it comes up. Called without any lock held, as the
    // next one.
    std::function<void(const char *message)> warn;
    // Asks other processes to evict what is idle there, as the GPU or a NIC has
    // no room although nothing is idle here; whether any did.
    std::function<bool()> ask_others = [] { return false; };
    std::function<void(const cache_event &event)> trace;
};

// Registrations of device memory with several NICs. Everything is thread-safe
// unless it says otherwise. No lock is held while the exporter or a registrar
// is called.
class cache {
public:
    using nic_id = ucx_ib_dmabuf::nic_id;
    using effort = ucx_ib_dmabuf::effort;

    cache(exporter &memory, const cache_settings &settings);
    ~cache(); // all NICs detached before; nobody uses it any more
    cache(const cache &)            = delete;
    cache &operator=(const cache &) = delete;

    // Adds a NIC; the registrar outlives its attachment.
    nic_id attach(registrar &nic);
    // Deregisters everything of that NIC. Nobody uses its regions any more.
    void detach(nic_id nic);

    // A region that covers the range, registered with the NIC, if there is
    // one; nullptr also for a range that is none. Calls nobody, unless every
    // hit is checked. To be put back with put().
    const region *find(nic_id nic, uintptr_t address, size_t length) noexcept;
    // The same, after registering what is needed. UCS_ERR_NO_ELEM: not device
    // memory. UCS_ERR_INVALID_PARAM: zero length, overflow, or more than one
    // allocation. UCS_ERR_UNSUPPORTED: cannot be exported. UCS_ERR_NO_MEMORY,
    // UCS_ERR_EXCEEDS_LIMIT: no room, even after eviction of what is idle.
    // Other errors are the exporter's or the registrar's.
    ucs_status_t get(nic_id nic, uintptr_t address, size_t length,
                     const region **out, effort how = effort::normal);
    // Once for each region that find() or get() gave, with the range that was
    // asked for, which else counts as asked for until the region ends; nullptr
    // does nothing. If it has been invalidated the last one deregisters it, in
    // this thread.
    void put(const region *used, uintptr_t address = 0,
             size_t length = 0) noexcept;

    // The memory in the range is going away: its regions leave the index
    // before this returns, and are deregistered now, or by a thread of the
    // cache's at once, or by their last user. Takes [0, SIZE_MAX] for
    // everything. Does not call the exporter.
    void invalidate(uintptr_t address, size_t length);
    // The same where it is surely released, so that no operation on it is under
    // way: regions that users merely keep are revoked, that
    // is, deregistered although they have them, if all of their memory goes, or
    // if a part that went before, and that users asked for, is replaced.
    void release(uintptr_t address, size_t length);
    // What is registered with the NIC may be of no use any more, while its
    // memory is what it was: its regions leave the index, are deregistered as
    // by invalidate(), and whoever asks next has them registered anew.
    void drop(nic_id nic);
    // Whether a region that somebody has was revoked. Not before this says so
    // is its handle given to registrar::dereg().
    bool is_revoked(const region *used) const;
    // Evicts all that is idle, for who registers without this cache and has no
    // room. False if nothing was.
    bool evict_all_idle();
    // cache_settings::ask_others.
    bool ask_others_for_room() { return settings_.ask_others(); }
    // Waits until what has left the index, and nobody uses, is deregistered:
    // the driver can give its memory to somebody else. False if there was
    // nothing, nor ever left to the cache's thread. In a registrar's dereg() it
    // does not wait.
    bool flush();

    // From now on every hit is checked by identity.
    void check_identity();
    // Whether users must not keep regions for later operations:
    // each use has to be seen, as it is checked, or as room is scarce and what
    // is used least goes first. Once so, always so; what is kept then is asked
    // back.
    bool needs_each_use() const { return each_use_; }

private:
    // Functions that take a `guard` are called with the lock held; "releases
    // the lock" says which of them give it up for a while. The others take it
    // themselves, if they need it. docs/cache.md explains the whole.
    //
    // Among each other these functions have two errors more than the public
    // ones: UCS_ERR_CANCELED, memory was released meanwhile, and
    // UCS_INPROGRESS, something has been done: the caller describes the memory
    // again.
    using guard = std::unique_lock<std::mutex>;
    friend class fork_handler;

    // get.cc
    void acquire(guard &, cached_region *e, span request);
    bool is_current(const cached_region &e, span request);
    ucs_status_t miss(nic_id nic, span request, effort how,
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
    static bool make_regions(const pending &work, region_list *made);
    cached_region *add_regions(guard &, pending *work, region_list *made,
                               batch *replaced);
    bool add_region(guard &, cached_region *e, region_list *made,
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
    bool evict_oldest(guard &, shortage lacking); // releases the lock
    bool make_room(pending *work, ucs_status_t status);
    bool ask_others(guard &, pending *work); // releases the lock

    // retire.cc
    void withdraw(span range, span released);
    struct step {
        const char *what = nullptr; // of cache_event
        nic_id nic       = max_nics;
        span range       = {};
    };
    void expel(guard &, batch *gone, cause why, span released,
               const step &traced); // releases the lock
    void retire(guard &, cached_region *e, cause why);
    void claim_unused(guard &, batch *retired);
    void retire_all(guard &, batch *chosen, cause why);
    void claim(guard &, cached_region *e, batch *out);
    void call_dereg(nic_id nic, void *handle, span range, const char *why);
    void deregister(batch *claimed);
    void deregister_soon(batch *claimed);

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
    // Claims what has left the index, is in use, and is not to wait for that.
    template <typename Call>
    void revoke_if(guard &locked, batch *out, Call goes)
    {
        for (auto each = retired_.begin(); each != retired_.end();) {
            cached_region *e = &*each++; // which may leave the list
            if (goes(e)) {
                e->revoked = true;
                claim(locked, e, out);
            }
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

    // cache.cc
    void deregister_all(guard &, nic_id nic); // releases the lock
    void forget();

    exporter &memory_;
    const cache_settings settings_;
    const size_t granularity_;
    std::atomic<bool> check_identity_;
    std::atomic<bool> each_use_;

    mutable std::mutex lock_;
    std::condition_variable changed_; // pending_ got shorter, or busy less
    nic_slot nics_[max_nics];
    nic_id nic_end_ = 0; // above all that are attached
    release_log log_;
    budget budget_;
    region_list lru_;     // what is in an index, least recently used first
    region_list retired_; // what has left it but is in use
    region_list leaving_; // claimed, and not deregistered yet
    region_list ended_;   // deregistered although it is in use
    pending *pending_ = nullptr;
    failures failures_;
    refusals refusals_;
    uint64_t ask_again_  = 0; // when others may be asked (nanoseconds_now())
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
    // for what this very thread, or one that waits for it, deregisters.
    static constinit thread_local bool deregistering_;

    cache *next_ = nullptr; // cache.cc; from before it is in that list
};

} // namespace ucx_ib_dmabuf
