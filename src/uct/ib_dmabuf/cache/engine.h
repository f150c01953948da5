// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ENGINE_H_
#define UCX_IB_DMABUF_CACHE_ENGINE_H_

#include "address_map.h"
#include "budget.h"
#include "plan.h"
#include "release_log.h"
#include <atomic>
#include <bitset>
#include <condition_variable>
#include <mutex>

namespace ucx_ib_dmabuf {

constexpr unsigned max_nics = 256;
using nic_set               = std::bitset<max_nics>;

struct nic_slot {
    registrar *verbs = nullptr;
    address_map map;
    bool in_use = false; // has served a get
};

// A registration that is being made, without the lock. On its maker's stack.
struct in_flight {
    span memory;             // of the allocation
    span range;              // that others need not register meanwhile
    nic_set nics;            // with which
    bool released   = false; // some of the memory went meanwhile
    in_flight *next = nullptr;
};

// What one registration has led to.
struct registered {
    span range;
    cache::nic_id nic[max_nics];
    void *handle[max_nics];
    unsigned count = 0;
};

// The inside of a cache. Functions that take a `guard` are called with the
// lock held, which they may give up for a while; the others take it themselves.
class engine {
public:
    using nic_id = cache::nic_id;
    using guard  = std::unique_lock<std::mutex>;

    engine(exporter &memory, const cache_settings &settings);
    ~engine();

    nic_id attach(registrar &nic);
    void detach(nic_id nic);
    ucs_status_t get(nic_id nic, uintptr_t address, size_t length,
                     const region **out);
    void put(entry *used);
    void invalidate(span range);
    void check_identity() { check_identity_ = true; }
    void read_counters(cache_counters *out);

private:
    // get.cc
    entry *find_and_hold(nic_id nic, span request);
    ucs_status_t hit(nic_id nic, span request, entry *e);
    ucs_status_t miss(nic_id nic, span request, const region **out);
    ucs_status_t take(nic_id nic, span request, const extent &memory,
                      uint64_t time, const region **out);
    bool others_in_flight(nic_id nic, span range) const;
    void begin(in_flight *work);
    void end(in_flight *work);

    // register.cc
    ucs_status_t make(nic_id nic, span request, const extent &memory,
                      in_flight *work, entry **out);
    ucs_status_t try_range(nic_id nic, span range, const extent &memory,
                           in_flight *work, registered *result);
    ucs_status_t export_and_register(nic_id nic, span range, nic_set others,
                                     registered *result);
    ucs_status_t publish(nic_id nic, const extent &memory, in_flight *work,
                         registered *what, entry **out);
    void undo(const extent &memory, registered *what);
    bool still_current(const extent &memory, span range);
    nic_set companions(nic_id nic, span range);

    // evict.cc
    ucs_status_t reserve(int device, amount wanted);
    bool evict(nic_id nic, int device, size_t bytes);
    void pick_victims(guard &, nic_id nic, int device, amount lacking,
                      entry_list *out, amount *freed);
    void learn_limit(int device);

    // leave.cc
    void leave(entry *e, entry_list *out); // with the lock
    void leave_all(nic_id nic, span range, entry_list *out);
    void claim_idle(entry_list *leaving); // with the lock
    void deregister(entry_list *claimed, bool account = true);

    exporter &memory_;
    cache_settings settings_;
    std::atomic<bool> check_identity_;

    std::mutex lock_;
    std::condition_variable changed_; // in_flight_ got shorter
    release_log log_;
    budget budget_;
    age_list ages_;
    in_flight *in_flight_ = nullptr;
    nic_slot nics_[max_nics];

    struct {
        std::atomic<uint64_t> hits{0}, misses{0}, host_lookups{0},
            registrations{0}, deregistrations{0}, exports{0},
            identity_checks{0}, identity_misses{0}, invalidations{0},
            evictions{0}, failures{0};
    } count_;
};

} // namespace ucx_ib_dmabuf

#endif
