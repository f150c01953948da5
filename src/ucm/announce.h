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
    uint64_t newest;        // the last allocation that our hook announced
};
extern constinit thread_local thread_state this_thread;

// Kinds of reasons why releases may be missed. A noted reason stays.
enum class missing_hook {
    function,    // a function could not be hooked
    overwritten, // a hook was overwritten
    graph,       // graphs allocate memory, and free it while they run
    memory,      // something could not be recorded
};

// Notes a missing hook. If its kind is new, tells the subscriber `why`, a text
// that must stay valid. Takes no lock; call it with none held.
void note_missing(missing_hook which, const char *why) noexcept;
inline void note_lack_of_memory() noexcept
{
    note_missing(missing_hook::memory,
                 "host memory ran out while CUDA memory was noted");
}

// Set after the missing hooks were noted.
inline std::atomic<bool> hooks_installed{false};

// Asks the subscriber to free memory. Returns whether any is free now; false if
// the subscriber itself allocates.
bool reclaim() noexcept;
// Tell the subscriber, see cuda_handlers.
void note_allocated(uint64_t address, size_t size) noexcept;
void note_context_end() noexcept;

// The allocations, and the modules that libraries returned, which own them.
range_table &ranges() noexcept;
range_table &modules() noexcept;
// Adds to these tables. An allocation that is not listed may be missed when its
// owner is destroyed.
void note_range(range_table &to, const memory_range &range);

// Returns the allocation around an address, with size 0 if it is unknown.
memory_range range_from_driver(uint64_t address);

// Returns CUDA_SUCCESS if there is CUDA memory at an address, and
// CUDA_ERROR_INVALID_VALUE if there is none. Other results leave that open.
cuda_result ask(uint64_t address);

// `may_be_cached`: UCP may keep a registration in it.
void announce_release(uint64_t address, size_t size,
                      ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA,
                      bool may_be_cached     = true);

// Announces that any CUDA memory may be released.
void announce_everything();

// Announces a release, and new memory, at each allocation that the driver may
// have freed with a context. UCX queries the type of such memory again.
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

// Announces a release before the driver call, and takes that back if the driver
// refuses. A nested release announces its memory again: no hook can tell that
// it is nested, as a thread may jump out of a call (siglongjmp, an exception).
class release {
public:
    release()                           = default;
    ~release()                          = default;
    release(const release &)            = delete;
    release &operator=(const release &) = delete;

    // An allocation, by its address. Address 0 is ignored.
    void announce_free(uint64_t address);
    void announce_host_free(uint64_t address);
    // An allocation that returns to its pool. Ignored during a capture.
    template <bool per_thread>
    void announce_pool_free(uint64_t address, void *stream)
    {
        announce_pool_free(address, stream, per_thread);
    }
    // A range of mappings (cuMemMap).
    void announce_unmap(uint64_t address, size_t size);
    // An import of memory that may have been imported several times.
    void announce_ipc_close(uint64_t address);
    // The memory that was returned to this pool.
    void announce_pool_trim(uint64_t pool)
    {
        announce_owned(state::retired, pool);
    }
    // The variables of this module or library.
    void announce_unload(uint64_t module)
    {
        announce_owned(state::owned, module);
    }
    // Unknown memory, perhaps all.
    void announce_all();
    // The same if graphs allocate memory; otherwise nothing is announced.
    void announce_graph_free();

    // Calls the driver, and completes the announcement by its result.
    template <class Call>
    cuda_result through(Call &&call)
    {
        const cuda_result result = call();
        if ((result != CUDA_SUCCESS) || all_ || is_counted_) {
            finish(result);
        }
        return result;
    }

private:
    void announce_pool_free(uint64_t address, void *stream, bool per_thread);
    void announce_owned(state which, uint64_t owner);
    void finish(cuda_result result);
    void announce(const memory_range &listed,
                  ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA);
    void take_back(bool size_is_sure);

    bool all_           = false;
    bool is_counted_    = false;
    memory_range range_ = {0, 0};       // to take back; size 0: none
    std::vector<memory_range> owned_;   // the same
    std::vector<memory_range> modules_; // the same
};

// Notes that graphs allocate memory: destroying graphs releases it.
void note_graph_memory();
// `per_thread`: as in the _ptsz variants, the default stream is per thread.
bool is_capturing(void *stream, bool per_thread);

// Makes UCX install its hooks, and notes what these announce.
void follow_ucx_events();

} // namespace ucx_ib_dmabuf::ucm
