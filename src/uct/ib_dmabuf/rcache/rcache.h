// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "budget.h"
#include "failures.h"
#include "prefetch.h"
#include "registrar.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ucx_ib_dmabuf {

class dmabuf_exports;

// An action of the cache outside of a hit, for a trace.
struct rcache_event {
    const char *what;  // "acquire", "export", "register", "deregister"
    const char *cause; // of a deregistration; or nullptr
    ucs_status_t status;
    const registrar *nic;
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
    std::function<size_t(int device)> max_bytes = [](int) { return SIZE_MAX; };
    // If at least this many bytes lose their memory at once, a thread of the
    // cache deregisters them instead of the releasing thread.
    size_t deferred_size = size_t{2} << 20;
    // Every hit is checked by identity: some events are missing.
    bool check_identity = false;
    // New memory is registered before it is used, where that is expected.
    bool prefetch = true;
    // Called without a lock before the cache's thread starts, so that the end
    // of the process calls stop_thread(); false: there is no thread.
    std::function<bool()> watch_exit = [] { return true; };
    // How long ends of contexts, and of the process, wait for the thread.
    std::chrono::milliseconds patience{10000};
    // Reports why something was declined, for the log: the same text for each
    // cause, every time that it occurs. Called without any lock held, as is
    // ask_others.
    std::function<void(const char *message)> warn = [](const char *) {};
    // Asks other processes to evict their idle regions, as the GPU or a NIC
    // lacks room although nothing is idle here. Returns whether any did.
    std::function<bool()> ask_others = [] { return false; };
    // Called first in the cache's thread; false: it registers nothing ahead.
    std::function<bool()> begin_thread = [] { return true; };
    std::function<void(const rcache_event &event)> trace =
        [](const rcache_event &) {};
};

// Registrations of device memory with several NICs. Thread-safe unless a
// function says otherwise. Holds no lock while it calls the exporter or a
// registrar.
class rcache {
public:
    using nic_id = ucx_ib_dmabuf::nic_id;
    // The effort for a registration that fails. `persistent` ignores earlier
    // failures and retries a few times, with pauses of milliseconds and all
    // idle entries evicted.
    enum class effort : uint8_t { normal, persistent };

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

    // The range around the request for which a cache above this one may have
    // one entry: the whole allocation, if it is registered. VMM memory and
    // pools are released in parts, and messages may cross the border of any
    // two.
    static address_range extent(const region *used, address_range request)
    {
        const entry &e = *static_cast<const entry *>(used);
        return e.is_allocation ? e.bytes : request;
    }

    // The memory in the range is about to be freed: its regions are out of the
    // index when this returns. They are deregistered now, by a thread of the
    // cache at once, or by their last user. [0, SIZE_MAX] means everything.
    // Does not call the exporter.
    void invalidate(uintptr_t address, size_t length)
    {
        withdraw(make_range(address, length), cause::released);
    }
    // As invalidate(), for memory that is surely released, so that no operation
    // on it is under way. Revokes regions that users merely cache, that is,
    // deregisters them despite these users. It does so if all of their memory
    // is gone, or if a part that was released before, and that users requested,
    // is replaced.
    void release(uintptr_t address, size_t length)
    {
        withdraw(make_range(address, length), cause::released, true);
    }
    // Memory that the exporter describes as `whole` is new there. A thread of
    // the cache registers it if that is expected to be of use; then returns
    // true.
    bool allocate(uintptr_t address, size_t length);
    // Waits until the cache's thread has left exporter and registrars, and
    // registers nothing ahead that was allocated before.
    void leave_driver();
    // The same at the end of the process, which waits for the thread's
    // deregistrations, too. From now on a thread that releases memory does
    // them.
    void stop_thread();
    // The registrations of a device's NICs may have become invalid, although
    // their memory is the same. These regions leave the index, are deregistered
    // as by invalidate(), and registered anew on the next request.
    void drop(const char *device);
    // Whether a region that has users was revoked. Its handle is passed to
    // registrar::dereg() only after this returns true.
    bool is_revoked(const region *used) const
    {
        const guard locked(lock_);
        return static_cast<const entry *>(used)->at >= stage::leaving;
    }
    // Evicts all idle regions, for a caller that registers without this cache
    // and lacks room. Returns false if there were none.
    bool evict_all_idle();
    bool ask_others_for_room() { return settings_.ask_others(); }
    // Waits until all unused regions that left the index are deregistered: then
    // the driver can reuse their memory. Returns false if there were none, and
    // the cache's thread deregistered none since this thread's last call. Does
    // not wait in a registrar's dereg().
    bool flush();

    // From now on, every hit is checked by identity.
    void check_identity();
    // Whether users must not cache regions for later operations. Each use has
    // to be seen, to be checked, or to evict the least recently used region
    // when room is scarce. When it becomes true, for good, users are asked to
    // drop their cached regions.
    bool checks_each_use() const { return each_use_; }

    // Called in a child of fork, before it uses the cache.
    void forget_parent();

private:
    // Functions with a `guard` parameter are called with the lock held;
    // "releases the lock" marks those that release it for a while. The others
    // lock it themselves if they need it. docs/rcache.md explains the whole.
    //
    // These functions return two more errors than the public ones.
    // UCS_ERR_CANCELED: memory was released meanwhile. UCS_INPROGRESS: the
    // state has changed, and the caller describes the memory again.
    using guard   = std::unique_lock<std::mutex>;
    using nic_set = std::bitset<max_nics>;

    struct nic_slot {
        entry_index index;
        registrar *nic = nullptr; // nullptr: the slot is free
        // Entries that were used so far, by GPU.
        std::array<uint32_t, max_gpus> used{};
        bool inherited = false; // from the parent of a fork
        // Leaving entries, and calls of drop_from_ucp_cache().
        unsigned busy = 0;
    };

    // A registration in progress, for one miss. On the stack of its thread.
    struct new_registration {
        nic_id nic = max_nics; // ahead: chosen once the memory is known
        const address_range request;
        const bool persistent = false;
        const bool ahead      = false;

        // Other threads see these, under the lock.
        address_range range = request; // threads that want it wait
        nic_set nics{};        // with these NICs; none: it is not decided
        bool released = false; // some of the memory was released, or the NIC
                               // has failed
        bool in_vain = false;  // released, and not with everything
        // The events before the memory is known: they may name a part of it
        // that was not requested. The last is around all that have no place.
        std::array<address_range, 16> events = all_nothing();
        unsigned event_count                 = 0;
        new_registration *next               = nullptr;

        segment_run memory{};
        // For the NIC that asked, then for others; counted in the budget.
        entry_list new_entries{};
        bool exact         = false; // tries only the request's pages
        bool export_failed = false, asked_others = false;
        bool evicted   = false; // idle entries, after a refusal
        uint64_t freed = 0;     // room_freed_ before the last attempt
        // Bytes in use before that, without this registration's.
        size_t mapped_before = 0, registered_before = 0;

        void note_event(address_range event)
        {
            released |= range.overlaps(event);
            in_vain |= range.overlaps(event) && event != everything;
            if (nics.none()) {
                address_range &one = events[event_count];
                one                = hull(one, event);
                event_count += event_count + 1 < events.size();
            }
        }
        // Whether the memory, which is described, was released meanwhile.
        bool is_touched() const
        {
            return released || std::ranges::any_of(events, [&](auto &each) {
                       return memory.range.overlaps(each);
                   });
        }
        static std::array<address_range, 16> all_nothing()
        {
            std::array<address_range, 16> result;
            result.fill(nothing);
            return result;
        }
        // No smaller range is left to try.
        bool insists() const { return exact && persistent; }
    };

    // Entries that leave the index, and where users may have cached them.
    struct departing {
        entry_chain unused; // to be deregistered
        nic_set nics;
        address_range range = nothing;
    };

    // rcache.cc
    void acquire(guard &, entry *e, address_range request);
    void note_first_use(guard &, const entry &e);
    void add_users(guard &, entry *e, address_range request, uint32_t change);
    void put_in_list(guard &, export_group *group);
    bool is_current(const entry &e, address_range request);
    ucs_status_t finish(new_registration *work, ucs_status_t status,
                        entry **out);
    entry *publish(guard &, new_registration *work, entry_chain *replaced);

    // register.cc
    ucs_status_t miss(nic_id nic, address_range request, effort how,
                      entry **out);
    void list(guard &, new_registration *work);
    ucs_status_t perform(new_registration *work, entry **out);
    ucs_status_t begin(new_registration *work, entry **out);
    void learn_limit(guard &, int device); // releases the lock
    bool is_stale(guard &, const segment_run &memory,
                  address_range range) const;
    bool others_register(guard &, nic_id nic, address_range range) const;
    address_range free_around(guard &, nic_id nic, address_range memory,
                              address_range request) const;
    void extend(new_registration *work);
    ucs_status_t register_memory(new_registration *work);
    ucs_status_t register_range(new_registration *work, address_range range);
    bool add_entry(new_registration *work, address_range range, nic_id nic);
    ucs_status_t prepare(new_registration *work);
    nic_set companions(guard &, const new_registration &work);
    ucs_status_t export_and_register(new_registration *work);
    ucs_status_t register_with(entry *e, dmabuf_exports *memory);
    void add_companion(nic_id nic, dmabuf_exports *memory,
                       new_registration *work);
    bool still_current(const segment_run &memory);

    // eviction.cc
    entry_chain choose(guard &, shortage *lacking);
    bool evict(guard &, entry_chain victims);             // releases the lock
    bool wait_for_leaving(guard &);                       // releases the lock
    ucs_status_t make_room(guard &, const entry &wanted); // releases the lock
    ucs_status_t heed_refusal(guard &, const failures::failure &known,
                              const entry &wanted); // releases the lock
    void note_refusal(guard &, const new_registration &work,
                      ucs_status_t status);
    ucs_status_t retry(new_registration *work, ucs_status_t status);
    bool evict_as_much(new_registration *work);
    bool ask_others(new_registration *work);

    // unlink.cc
    void forget_ahead(guard &, export_group *group, bool is_released);
    void unlink(guard &, entry *e, cause why, entry_chain *unused);
    void note(guard &, const entry &e, departing *out);
    void expel(guard &, entry *e, cause why, departing *out);
    void depart(departing *gone);
    void withdraw(address_range range, cause why, bool is_released = false);
    void need_each_use();
    void take_for_dereg(guard &, entry *e, entry_list *from, entry_chain *out);
    void deregister(entry_chain *taken);
    void call_dereg(const entry &e);
    void deregister_soon(entry_chain *taken);
    bool defer(entry_chain *taken);
    void deregister_waiting(guard &); // releases the lock
    bool start_thread(guard &);       // releases the lock
    void run_deferred();

    // prefetch.cc
    void prefetch(guard &); // releases the lock
    bool choose_nic(guard &, new_registration *work) const;
    bool give_up_ahead();
    void wait_for_prefetch(guard &); // releases the lock

    // Calls `call` with each entry, of any NIC, that serves part of the range.
    template <typename Call>
    void each_entry(guard &, address_range range, Call call) const
    {
        for (nic_id nic = 0; nic < nic_end_; ++nic) {
            nics_[nic].index.each(range, call);
        }
    }
    // Takes unlinked entries in the range, although in use, for which `goes`
    // returns true.
    template <typename Call>
    void revoke_if(guard &locked, address_range range, entry_chain *out,
                   Call goes)
    {
        if (unlinked_.empty()) {
            return;
        }
        unlinked_index_.each(range, [&](entry *e) {
            if (goes(e)) {
                take_for_dereg(locked, e, &unlinked_, out);
            }
        });
    }

    exporter &memory_;
    const rcache_settings settings_;
    const size_t granularity_;
    std::atomic<bool> check_identity_;
    std::atomic<bool> each_use_;
    std::atomic<bool> prefetches_;

    mutable std::mutex lock_;
    std::condition_variable changed_; // in_progress_ or a `busy` has shrunk
    nic_slot nics_[max_nics];
    nic_id nic_end_ = 0; // above all attached NICs
    budget budget_;
    // Groups with entries in an index.
    export_group::list lru_;         // without users, least recently used first
    export_group::list partly_used_; // some entries have users; the same order
    export_group::list in_use_;      // all have
    uint64_t uses_ = 0;
    entry_list unlinked_;
    overlap_index unlinked_index_;
    entry_list leaving_;
    entry_list deregistered_;
    new_registration *in_progress_ = nullptr;
    failures failures_;       // of memory
    failures refusals_;       // for lack of room, by GPU
    uint64_t ask_again_  = 0; // earliest next time (nanoseconds_now())
    uint64_t departures_ = 0; // total so far, as the next
    uint64_t room_freed_ = 0;
    uint32_t generation_ = 0; // number of forks so far
    uint64_t prefetch_   = 0; // beginnings and ends of prefetch() so far
    predictor predictor_;

    // Deregistrations that would delay a release, and the thread for them, then
    // `busy`, and for prefetch(). `over`: the process ends. Under the lock.
    struct {
        entry_chain waiting;
        std::thread thread;
        bool starting = false, stop = false, busy = false, over = false;
    } deferred_;
    std::condition_variable deferred_changed_;
    // Deregistrations by such threads, of all caches.
    static inline std::atomic<uint64_t> batches_{0};

    // This thread is in a registrar's dereg(), or is the cache's. Calls from
    // there must not wait for this thread, or for one that waits for it.
    static constinit thread_local bool deregistering_;
};

} // namespace ucx_ib_dmabuf
