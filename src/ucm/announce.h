// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cuda_api.h"
#include "range_table.h"
#include <atomic>
#include <new>
#include <uct/ib_dmabuf/ucx/ucm.h>

// Announces allocations and releases to each UCX in this process, and records
// allocations. Thread-safe.
namespace ucx_ib_dmabuf::ucm {

using cuda_result = int; // a CUresult, perhaps one of a later CUDA

// Returns the single object of a type. It needs no allocation and is never
// destroyed, as hooks run until the process ends.
template <class T>
T &immortal() noexcept
{
    alignas(T) static unsigned char storage[sizeof(T)];
    static T *one = new (storage) T;
    return *one;
}

// The UCM that we rely on for hooks and events; one must exist.
inline const ucm_functions &our_ucm()
{
    return *all_ucm().front();
}

// Driver functions for the hooks' own calls; found before the first hook.
inline driver_table driver;

// Per thread. Not in static thread-local storage, which may be exhausted when a
// library is opened late.
struct thread_state {
    bool announcing;        // the event being dispatched is ours
    bool existing;          // that event is for memory older than the hooks
    bool reclaiming;        // the out-of-memory handler runs
    uint64_t ucx_announced; // the last allocation that UCX's hook announced
};
extern constinit thread_local thread_state this_thread;

// Reasons why releases may be missed. A reason that was noted stays.
enum class missing_hook : unsigned {
    function = 1, // a function could not be hooked
    graph    = 2, // graphs allocate memory, and free it while they run
    memory   = 4, // something could not be recorded
};

// Notes a missing hook. If it is new, reports `why` to the subscriber; only
// `function` needs a `why`. Takes no lock; call it with none held.
void note_missing(missing_hook which, const char *why = nullptr) noexcept;

// Notes a hooked function if its beginning was overwritten. Waits for no lock.
void check_hooks() noexcept;

// The allocations, and the modules that libraries returned, which own them.
range_table &ranges() noexcept;
range_table &modules() noexcept;
// Adds to these tables. An allocation that is not listed may be missed when its
// owner is destroyed.
void note_range(range_table &to, const memory_range &range);

// Returns the allocation around an address, with size 0 if it is unknown.
memory_range range_from_driver(uint64_t address);

// Whether CUDA memory exists at an address.
enum class answer { there, gone, unknown };
answer ask(uint64_t address);

// `may_be_cached`: UCP may keep a registration in it.
void announce_release(uint64_t address, size_t size,
                      ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA,
                      bool may_be_cached     = true);

// Announces that any CUDA memory may be released.
void announce_everything();
// The same if not all released ranges are known. UCX's memory type cache
// ignores that event.
void announce_without_memory();

// Announces the release of allocations that the driver no longer knows, after a
// context or similar was destroyed. If the driver's answer leaves open whether
// memory exists, announces a release and new memory there: caches register it
// again then, and query its type.
void announce_vanished();

// Announces new memory. UCX queries its type.
void announce_memory(uint64_t address, size_t size);
// Announces variables and memory of other processes.
void announce_unexported(const memory_range &range);

// How long the table lists new memory.
enum class listing {
    until_freed, // or until its context is destroyed
    with_owner,  // until its owner is destroyed or it is closed; never exported
    none,        // a mapping, which outlives contexts
};

// Announces new memory, unless UCX's hook did; owned memory even then, with its
// own type, but not for repeated queries. Size 0: query the driver.
void announce_allocation(uint64_t address, size_t size, uint64_t owner = 0,
                         listing how = listing::until_freed);

// Makes UCX install its hooks, and notes what these announce.
void follow_ucx_events();

} // namespace ucx_ib_dmabuf::ucm
