// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "failures.h"
#include "registration.h"
#include "release_log.h"
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ucx_ib_dmabuf {

class dmabuf_exports;

// An action of the cache outside of a hit, for a trace.
struct rcache_event {
    const char *what;  // "acquire", "export", "register", "deregister",
                       // "invalidate", "drop"
    const char *cause; // of a deregistration; or nullptr
    ucs_status_t status;
    const registrar *nic; // nullptr: all NICs
    uintptr_t address;
    size_t length; // bytes
};

struct rcache_settings {
    // Allocations larger than this many bytes are registered in chunks of
    // this size, aligned to it or to half of it. A power of two.
    size_t chunk_size = size_t{4} << 30;
    // Limits of the registered memory, over all NICs together.
    size_t max_regions = SIZE_MAX;
    // Bytes per GPU; SIZE_MAX: no limit. The first user of each GPU calls it,
    // or several at once; it always returns the same.
    std::function<size_t(int device)> max_bytes;
    // If at least this many bytes lose their memory at once, a thread of the
    // cache deregisters them instead of the releasing thread.
    size_t deferred_size = size_t{2} << 20;
    // Every hit is checked by identity: some events are missing.
    bool check_identity = false;
    // Reports why something was declined, for the log: the same text for each
    // cause, every time that it occurs. Called without any lock held, as is
    // ask_others.
    std::function<void(const char *message)> warn;
    // Asks other processes to evict their idle regions, as the GPU or a NIC
    // lacks room although nothing is idle here. Returns whether any did.
    std::function<bool()> ask_others = [] { return false; };
    std::function<void(const rcache_event &event)> trace;
};

// Registrations of device memory with several NICs. Thread-safe unless a
// function says otherwise. Holds no lock while it calls the exporter or a
// registrar.
class rcache {
public:
    using nic_id = ucx_ib_dmabuf::nic_id;
    using effort = ucx_ib_dmabuf::effort;

    rcache(exporter &memory, const rcache_settings &settings);
    ~rcache(); // all NICs are detached, and no thread uses it
    rcache(const rcache &)            = delete;
    rcache &operator=(const rcache &) = delete;

    // Adds a NIC; the registrar outlives its attachment.
    nic_id attach(registrar &nic);
    // Deregisters everything of that NIC. No operation may use its regions.
    void detach(nic_id nic);

    // Returns a region registered with the NIC that covers the range, or
    // nullptr; also nullptr if the range is invalid. Calls neither exporter nor
    // registrar, unless every hit is checked. Return the region with put().
    const region *find(nic_id nic, uintptr_t address, size_t length) noexcept;
    // As find(), but registers if needed. UCS_ERR_NO_ELEM: not device memory.
    // UCS_ERR_INVALID_PARAM: zero length, overflow, or more than one
    // allocation. UCS_ERR_UNSUPPORTED: cannot be exported. UCS_ERR_NO_MEMORY,
    // UCS_ERR_EXCEEDS_LIMIT: no room, even after evicting idle regions. Other
    // errors are the exporter's or the registrar's.
    ucs_status_t get(nic_id nic, uintptr_t address, size_t length,
                     const region **out, effort how = effort::normal);
    // Call once for each region from find() or get(), with the requested range:
    // otherwise the range counts as requested until the region is deregistered.
    // Ignores nullptr. If the region was invalidated, the last put()
    // deregisters it, in this thread.
    void put(const region *used, uintptr_t address = 0,
             size_t length = 0) noexcept;

    // The memory in the range is about to be freed: its regions are out of the
    // index when this returns. They are deregistered now, by a thread of the
    // cache at once, or by their last user. [0, SIZE_MAX] means everything.
    // Does not call the exporter.
    void invalidate(uintptr_t address, size_t length);
    // As invalidate(), for memory that is surely released, so that no operation
    // on it is under way. Revokes regions that users merely cache, that is,
    // deregisters them despite these users. It does so if all of their memory
    // is gone, or if a part that was released before, and that users requested,
    // is replaced.
    void release(uintptr_t address, size_t length);
    // The NIC's registrations may have become invalid, although their memory is
    // the same. Its regions leave the index, are deregistered as by
    // invalidate(), and registered anew on the next request.
    void drop(nic_id nic);
    // The same for all NICs of a device.
    void drop(const char *device);
    // Whether a region that has users was revoked. Its handle is passed to
    // registrar::dereg() only after this returns true.
    bool is_revoked(const region *used) const;
    // Evicts all idle regions, for a caller that registers without this cache
    // and lacks room. Returns false if there were none.
    bool evict_all_idle();
    bool ask_others_for_room() { return settings_.ask_others(); }
    // Waits until all unused regions that left the index are deregistered: then
    // the driver can reuse their memory. Returns false if there were none, and
    // the cache's thread never ran. Does not wait in a registrar's dereg().
    bool flush();

    // From now on, every hit is checked by identity.
    void check_identity();
    // Whether users must not cache regions for later operations. Each use has
    // to be seen, to be checked, or to evict the least recently used region
    // when room is scarce. When it becomes true, for good, users are asked to
    // drop their cached regions.
    bool checks_each_use() const { return each_use_; }

private:
    // Functions with a `guard` parameter are called with the lock held;
    // "releases the lock" marks those that release it for a while. The others
    // lock it themselves if they need it. docs/rcache.md explains the whole.
    //
    // These functions return two more errors than the public ones.
    // UCS_ERR_CANCELED: memory was released meanwhile. UCS_INPROGRESS: the
    // state has changed, and the caller describes the memory again.
    using guard = std::unique_lock<std::mutex>;
    friend class fork_handler;

    // get.cc
    void acquire(guard &, cached_region *e, address_range request);
    bool is_current(const cached_region &e, address_range request);
    ucs_status_t miss(nic_id nic, address_range request, effort how,
                      cached_region **out);
    ucs_status_t begin(pending *work, uint64_t time, cached_region **out);
    bool retire_stale(guard &, const segment_run &memory,
                      address_range range); // releases the lock
    bool others_pending(guard &, nic_id nic, address_range range) const;
    address_range free_around(guard &, nic_id nic, address_range memory,
                              address_range request) const;
    void end(pending *work);

    // register.cc
    ucs_status_t make(pending *work, cached_region **out);
    ucs_status_t try_range(pending *work);
    ucs_status_t prepare(pending *work);
    nic_set add_companions(guard &, const pending &work);
    ucs_status_t export_and_register(pending *work);
    ucs_status_t register_with(nic_id nic, dmabuf_exports *memory,
                               pending *work);
    bool still_current(const segment_run &memory);
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
    void choose_overlapping(guard &, nic_id nic, address_range range,
                            shortage *lacking, batch *out);
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
    void withdraw(address_range range, address_range released);
    struct step {
        const char *what    = nullptr; // of rcache_event
        nic_id nic          = max_nics;
        address_range range = {};
    };
    void expel(guard &, batch *gone, cause why, address_range released,
               const step &traced); // releases the lock
    void retire(guard &, cached_region *e, cause why);
    void claim_unused(guard &, batch *retired);
    void retire_all(guard &, batch *chosen, cause why);
    void claim(guard &, cached_region *e, batch *out);
    void call_dereg(nic_id nic, void *handle, address_range range,
                    const char *why);
    void deregister(batch *claimed);
    void deregister_soon(batch *claimed);

    void keep(guard &, kept_regions *result, const cached_region *e);
    void ask_back(const kept_regions &kept);
    void need_each_use();

    // defer.cc
    bool defer(batch *claimed);
    void run_deferred();
    void stop_deferred();

    // Calls `call` with each region, of any NIC, that serves part of the range.
    template <typename Call>
    void each_region(guard &, address_range range, Call call) const
    {
        for (nic_id nic = 0; nic < nic_end_; ++nic) {
            nics_[nic].index.each(range, call);
        }
    }
    // Claims retired regions that are in use, if `goes` returns true for them.
    template <typename Call>
    void revoke_if(guard &locked, batch *out, Call goes)
    {
        for (auto each = retired_.begin(); each != retired_.end();) {
            cached_region *e = &*each++; // it may leave the list
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
    // max_nics means all NICs.
    void trace(const char *what, nic_id nic, address_range range,
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
    const rcache_settings settings_;
    const size_t granularity_;
    std::atomic<bool> check_identity_;
    std::atomic<bool> each_use_;

    mutable std::mutex lock_;
    std::condition_variable changed_; // pending_ or a `busy` has shrunk
    nic_slot nics_[max_nics];
    nic_id nic_end_ = 0; // above all attached NICs
    release_log log_;
    budget budget_;
    region_list lru_;     // in an index, least recently used first
    region_list retired_; // out of the index, but in use
    region_list leaving_; // claimed, not deregistered yet
    region_list ended_;   // deregistered, but in use
    pending *pending_ = nullptr;
    failures failures_;
    refusals refusals_;
    uint64_t ask_again_  = 0; // earliest next time (nanoseconds_now())
    uint64_t uses_       = 0; // total so far, as the next
    uint64_t claims_     = 0;
    uint32_t generation_ = 0; // number of forks so far

    // Deregistrations that would delay a release. Under the lock.
    struct {
        batch waiting;
        std::thread thread;
        bool running = false, stop = false;
    } deferred_;
    std::condition_variable deferred_changed_;

    // This thread is in a registrar's dereg(). Calls from there must not wait
    // for a deregistration by this thread, or by one that waits for it.
    static constinit thread_local bool deregistering_;

    rcache *next_ = nullptr; // in cache.cc; set before it is in that list
};

} // namespace ucx_ib_dmabuf
