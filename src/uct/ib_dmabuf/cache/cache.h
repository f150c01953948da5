// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_CACHE_H_
#define UCX_IB_DMABUF_CACHE_CACHE_H_

#include "provider.h"
#include <functional>
#include <memory>

namespace ucx_ib_dmabuf {

class engine;

// A registration of a range with one NIC, in use by whoever got it.
struct region {
    uintptr_t address; // what is registered: the whole allocation or a part
    size_t length;
    void *handle; // the registrar's
};

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
    std::function<void(const cache_event &event)> trace;
};

// Since the process started (or forked). Filled by cache::read_counters.
struct cache_counters {
    uint64_t hits             = 0;
    uint64_t misses           = 0;
    uint64_t host_lookups     = 0; // lookups of what is not device memory
    uint64_t registrations    = 0;
    uint64_t deregistrations  = 0;
    uint64_t exports          = 0;
    uint64_t identity_checks  = 0;
    uint64_t identity_misses  = 0; // a check found other memory: event missed
    uint64_t invalidations    = 0; // regions that left because of an event
    uint64_t evictions        = 0;
    uint64_t failures         = 0;
    uint64_t regions          = 0; // now
    uint64_t registered_bytes = 0; // now, with each NIC
    uint64_t mapped_bytes     = 0; // now: what is exported once counts once
};

// Registrations of device memory with several NICs. Everything is thread-safe
// unless it says otherwise. No lock is held while the exporter or a registrar
// is called.
class cache {
public:
    using nic_id = unsigned;

    // How much is done for a registration that fails. `persistent`: what failed
    // before is tried all the same, and what fails is tried again a few times,
    // with milliseconds between, and with all that may have gone evicted.
    enum class effort : uint8_t { normal, persistent };

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
    // Once for each region that find() or get() gave; nullptr does nothing. If
    // it has been invalidated the last one deregisters it, in this thread.
    void put(const region *used) noexcept;

    // The memory in the range is going away: its regions leave the index
    // before this returns, and are deregistered now, or by a thread of the
    // cache's at once, or by their last user. Takes [0, SIZE_MAX] for
    // everything. Does not call the exporter.
    void invalidate(uintptr_t address, size_t length);
    // The same where it is surely released, so that no operation on it is under
    // way: regions that users keep (registrar::users_keep) are revoked, that
    // is, deregistered although they have them, if all of their memory goes.
    void release(uintptr_t address, size_t length);
    // What is registered with the NIC may be of no use any more, while its
    // memory is what it was: its regions leave the index, are deregistered as
    // by invalidate(), and whoever asks next has them registered anew.
    void drop(nic_id nic);
    // Whether a region that somebody has was revoked. Not before this says so
    // is its handle given to registrar::dereg().
    bool is_revoked(const region *used) const;
    // Waits until what has left the index, and nobody uses, is deregistered:
    // the driver can give its memory to somebody else. False if there was
    // nothing, nor ever left to the cache's thread. In a registrar's dereg() it
    // does not wait.
    bool flush();

    // From now on every hit is checked by identity.
    void check_identity();
    // Whether regions must not be kept for later operations (users_keep()):
    // each use has to be seen, as it is checked, or as room is scarce and what
    // is used least goes first. Once so, always so; what is kept then is asked
    // back.
    bool needs_each_use() const;

    void read_counters(cache_counters *out) const;

private:
    std::unique_ptr<engine> engine_;
};

} // namespace ucx_ib_dmabuf

#endif
