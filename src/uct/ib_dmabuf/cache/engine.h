// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ENGINE_H_
#define UCX_IB_DMABUF_CACHE_ENGINE_H_

#include "address_map.h"
#include "budget.h"
#include "counters.h"
#include "failures.h"
#include "plan.h"
#include "refusals.h"
#include "release_log.h"
#include "survey.h"
#include <algorithm>
#include <array>
#include <bitset>

namespace ucx_ib_dmabuf {

using nic_set    = std::bitset<max_nics>;
using device_set = std::bitset<budget::max_devices>;

struct nic_slot {
    address_map map;
    registrar *verbs = nullptr; // nullptr: the slot is free
    device_set serves;          // a get of their memory has succeeded
    // How many allocations of theirs it has said not to support before it had
    // registered any; so many, and it cannot at all. Then how often it was
    // asked since as well.
    static constexpr uint8_t enough = 3;
    std::array<uint8_t, budget::max_devices> unsupported{};
    bool inherited = false; // the parent's, before a fork
    unsigned busy  = 0;     // regions claimed and not yet deregistered
};

// A registration that is being made, without the lock. On its maker's stack.
struct in_flight {
    span memory;             // of the allocation
    span range;              // that others need not register meanwhile
    nic_set nics;            // with which
    bool released   = false; // some of the memory went meanwhile
    in_flight *next = nullptr;
};

// What a miss has learned of regions which overlap what it asks for but have
// another identity: that they are of the same VMM segments, among others.
struct kin {
    static constexpr unsigned max_known = 32;

    explicit kin(span request) : wider(request) {}

    span wider; // the request, and they
    unsigned count = 0;
    // Entry and identity. Not zeroed: most misses are of host memory, and
    // should cost nothing.
    std::array<uint32_t, max_known> ids;
    std::array<uint64_t, max_known> identities;

    bool has(const entry *e) const
    {
        for (unsigned i = 0; i < count; ++i) {
            if (ids[i] == e->id && identities[i] == e->identity) {
                return true;
            }
        }
        return false;
    }
    bool add(const entry *e)
    {
        if (count == max_known) {
            return false;
        }
        ids[count]          = e->id;
        identities[count++] = e->identity;
        return true;
    }
};

// What has to go before something fits: mappings of a GPU, registrations of a
// NIC, regions of whatever kind.
struct shortage {
    int device        = 0; // its place in the budget
    size_t mapped     = 0; // bytes, as the next
    cache::nic_id nic = max_nics;
    size_t registered = 0;
    size_t regions    = 0;

    bool nothing() const
    {
        return mapped == 0 && registered == 0 && regions == 0;
    }
};

// What was evicted for one miss after a refusal, in bytes.
struct evicted {
    size_t mapped     = 0;
    size_t registered = 0;
    // What there was when it was last tried.
    struct {
        uint64_t changes  = 0;
        size_t mapped     = 0;
        size_t registered = 0;
    } before;
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

// The inside of a cache. Functions that take a `guard` are called with the
// lock held, and may give it up for a while if they say so; the others take it
// themselves, if they need it. docs/cache.md says why this is right.
class engine {
public:
    using nic_id = cache::nic_id;
    using guard  = std::unique_lock<mutex>;

    engine(exporter &memory, const cache_settings &settings);
    ~engine();
    engine(const engine &)            = delete;
    engine &operator=(const engine &) = delete;

    nic_id attach(registrar &nic);
    void detach(nic_id nic);
    ucs_status_t get(nic_id nic, uintptr_t address, size_t length,
                     const region **out);
    const region *find(nic_id nic, uintptr_t address, size_t length);
    void put(entry *used);
    void invalidate(span range);
    void check_identity();
    void read_counters(cache_counters *out);

private:
    friend class fork_handler;

    // hit.h, get.cc
    enum class found { yes, look, no, lost, ask };
    template <typename Fence, bool plain>
    found try_hold(thread_record *me, nic_id nic, uintptr_t address,
                   size_t length, entry **out);
    ucs_status_t get_again(nic_id nic, uintptr_t address, size_t length,
                           const region **out);
    ucs_status_t get_marked(nic_id nic, uintptr_t address, size_t length,
                            entry *e, found result, const region **out);
    const region *find_again(nic_id nic, uintptr_t address, size_t length);
    const region *find_marked(entry *e, found result);
    ucs_status_t get_slow(nic_id nic, uintptr_t address, size_t length,
                          bool ask, const region **out);
    template <typename Fence>
    void put_as(thread_record *me, entry *e);
    bool check_hit(entry *e);
    bool is_current(entry *e);
    entry *hold_locked(nic_id nic, span request);
    void add_use(guard &, entry *e);
    ucs_status_t miss(nic_id nic, span request, kin *known, const region **out);
    ucs_status_t take(nic_id nic, span request, const extent &memory,
                      uint64_t time, kin *known, const region **out);
    entry *find_stranger(guard &, const extent &memory, const kin &known);
    ucs_status_t known_failure(guard &, nic_id nic, const extent &memory) const;
    void count_request(guard &, nic_id nic, const extent &memory);
    void meet(entry *e, const extent &memory, kin *known);
    bool others_in_flight(nic_id nic, span range) const;
    span known_around(nic_id nic, span request, const extent &memory) const;
    void end(in_flight *work);
    void warn_once(unsigned cause, const char *message);

    // register.cc
    ucs_status_t make(nic_id nic, span request, span known,
                      const extent &memory, in_flight *work, entry **out);
    ucs_status_t try_range(nic_id nic, span range, bool last,
                           const extent &memory, in_flight *work, evicted *gone,
                           registered *result);
    ucs_status_t prepare(nic_id nic, span range, bool last,
                         const extent &memory, in_flight *work, evicted *gone,
                         nic_set *others);
    ucs_status_t export_and_register(nic_id nic, span range,
                                     const nic_set &others, registered *result);
    nic_set add_companions(guard &, nic_id nic, span range,
                           const extent &memory);
    ucs_status_t publish(nic_id nic, const extent &memory, in_flight *work,
                         registered *what, entry **out);
    entry *make_entry(guard &, const extent &memory, const registered &what,
                      unsigned i);
    bool insert(guard &, entry *e, entry_list *replaced);
    bool displaces(guard &, nic_id nic, span bytes) const;
    bool spares(guard &, nic_id nic, span bytes, amount lacking) const;
    void undo(const extent &memory, registered *what);
    void note_failure(nic_id nic, const extent &memory, in_flight *work,
                      bool by_memory, ucs_status_t status);
    bool still_current(const extent &memory);

    // evict.cc
    void learn_limit(guard &, int device); // gives up the lock
    bool reserve(guard &, nic_id nic, int device, span range); // the same
    bool wait_for_leaving(guard &);                            // the same
    ucs_status_t may_fit(guard &, nic_id nic, int device, size_t size,
                         evicted *gone); // the same
    bool make_room(nic_id nic, int device, size_t size, ucs_status_t status,
                   evicted *gone);
    void note_attempt(guard &, nic_id nic, int device, evicted *gone);
    void found_room(guard &, nic_id nic, int device);
    shortage left_after(guard &, shortage lacking);
    bool evict(guard &, const shortage &lacking, evicted *gone); // the same
    void leave_mapping(guard &, entry *e, shortage *lacking, entry_list *out);
    void pick_overlapped(guard &, nic_id nic, span range, shortage *lacking,
                         entry_list *out);
    void pick_victims(guard &, shortage *lacking, entry_list *out);

    // leave.cc
    void leave(guard &, entry *e, entry_list *out);
    size_t leave_all(guard &, nic_id nic, span range, entry_list *out);
    void leave_identity(entry *e);
    size_t claim_idle(guard &, entry_list *leaving);
    void claim(guard &, entry *e, entry_list *out);
    void deregister(entry_list *claimed, bool forced = false);
    void settle(entry *e);
    void put_slow(entry *e);

    // fork.cc
    void forget();

    exporter &memory_;
    const cache_settings settings_;
    const size_t granularity_;
    atomic<bool> check_identity_;
    nic_id nic_end_ = 0; // above all that are attached
    nic_slot nics_[max_nics];

    mutex lock_;
    condition_variable changed_; // in_flight_ got shorter, or busy less
    release_log log_;
    budget budget_;
    entries::pool pool_;
    limbo limbo_{pool_};
    age_list ages_;      // what is in the index
    age_list lingering_; // what has left it but is in use
    in_flight *in_flight_ = nullptr;
    failures failures_;
    refusals refusals_;
    uint64_t changes_  = 0; // that may have made room
    uint64_t departed_ = 0; // deregistered, for good
    survey survey_;

    engine *next_ = nullptr; // fork.cc; from before it is in that list
    const uint32_t tally_;   // where threads count its hits
    uint64_t hits_before_;   // there, by caches that are gone
    event_counts count_;
    spread_count host_lookups_;
    std::atomic<unsigned> warned_{0};
};

} // namespace ucx_ib_dmabuf

#include "hit.h"

#endif
