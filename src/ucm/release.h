// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "range_table.h"
#include <new>
#include <uct/ib_dmabuf/ucx/ucm.h>

// A hook's work around the driver call: announce the release before it, take
// that back if the driver refuses, announce new memory after it.
namespace ucx_ib_dmabuf::ucm {

// CUresult and cudaError_t agree on these.
using cuda_result                        = int;
constexpr cuda_result cuda_ok            = 0;
constexpr cuda_result cuda_invalid_value = 1;
constexpr cuda_result cuda_out_of_memory = 2;

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

// Driver functions that the hooks themselves call; nullptr if missing.
struct driver_calls {
    std::atomic<cuda_result (*)(uint64_t *, size_t *, uint64_t)> address_range;
    std::atomic<cuda_result (*)(void *, int, uint64_t)> pointer_attribute;
    std::atomic<cuda_result (*)(int, unsigned *, int *)> primary_state;
    std::atomic<cuda_result (*)(void *, int *)> is_capturing;
    std::atomic<cuda_result (*)(int *)> exchange_capture_mode;
};
inline driver_calls driver;

// While it lives, this thread's driver calls invalidate no stream capture,
// neither its own nor, in the global mode, another thread's. Do not use it
// around the program's own calls: they must keep the program's mode.
class relaxed_capture {
public:
    relaxed_capture()
        : exchange_(driver.exchange_capture_mode.load()),
          exchanged_((exchange_ != nullptr) && (exchange_(&mode_) == cuda_ok))
    {
    }
    ~relaxed_capture()
    {
        if (exchanged_) {
            exchange_(&mode_);
        }
    }
    relaxed_capture(const relaxed_capture &)            = delete;
    relaxed_capture &operator=(const relaxed_capture &) = delete;

private:
    int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED; then the old mode
    cuda_result (*exchange_)(int *);
    bool exchanged_;
};

// Per thread. Not in static thread-local storage, which may be exhausted when a
// library is opened late.
struct thread_state {
    bool announcing; // the event being dispatched is ours
    bool existing;   // that event is for memory older than the hooks
    bool told;       // UCX's hook has announced the allocation
    bool reclaiming; // the out-of-memory handler runs
};
extern constinit thread_local thread_state this_thread;

// A release, from before the driver call until after it. A nested release
// announces its memory again. No hook can tell that it is nested, as a thread
// may jump out of a call (siglongjmp, an exception).
class release {
public:
    release()                           = default;
    ~release()                          = default;
    release(const release &)            = delete;
    release &operator=(const release &) = delete;

    // An allocation, by its address. Address 0 is ignored.
    void pointer(uint64_t address);
    void host_pointer(uint64_t address);
    // An allocation that returns to its pool. Ignored during a capture.
    template <bool per_thread>
    void to_pool(uint64_t address, void *stream)
    {
        to_pool(address, stream, per_thread);
    }
    // A range of mappings (cuMemMap).
    void range(uint64_t address, size_t size);
    // An import of memory that may have been imported several times.
    void opening(uint64_t address);
    // The memory returned to this pool, or owned by this module or library.
    void pool(uint64_t pool) { owned(state::retired, pool); }
    void module(uint64_t module) { owned(state::owned, module); }
    // Unknown memory, perhaps all.
    void everything();
    // The same if graphs allocate memory; otherwise nothing is announced.
    void graphs();

    // Calls the driver, and completes the announcement by its result.
    template <class Call>
    cuda_result through(Call &&call)
    {
        const cuda_result result = call();
        if ((result != cuda_ok) || swept_ || is_opening_) {
            finish(result);
        }
        return result;
    }

private:
    void to_pool(uint64_t address, void *stream, bool per_thread);
    void owned(state which, uint64_t owner);
    void finish(cuda_result result);
    void announce(uint64_t address, size_t listed_size,
                  ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA);
    void take_back(bool size_is_sure);

    bool swept_         = false;
    bool is_opening_    = false;
    bool was_listed_    = false;
    memory_range range_ = {0, 0};       // to take back; size 0: none
    std::vector<memory_range> owned_;   // the same
    std::vector<memory_range> modules_; // the same
};

// Reasons why releases may be missed. A gap that was noted stays.
enum class gap : unsigned {
    hooks  = 1, // a function could not be hooked
    graphs = 2, // graphs allocate memory
    memory = 4, // something could not be recorded
};

// Notes a gap. If it is new, reports `why` to the subscriber; only `hooks`
// needs a `why`. Takes no lock; call it with none held.
void note_gap(gap which, const char *why = nullptr) noexcept;

// Makes cuda_events_refresh() check the hooks if the beginning of a hooked
// function has changed. Takes no lock.
void check_hooks() noexcept;

// Announces the release of allocations that the driver no longer knows, after a
// context or similar was destroyed. If the driver's answer leaves open whether
// memory exists, announces a release and new memory there: caches register it
// again then, and query its type.
void announce_vanished();

// Announces that any CUDA memory may be released.
void announce_everything();

// How the table records new memory.
enum class kept {
    listed,   // until it is freed, or its context is destroyed
    owned,    // until its owner is destroyed or it is closed; never exported
    unlisted, // not at all: a mapping, which outlives contexts
};

// Announces new memory, unless UCX's hook did; owned memory even then, with its
// own type, but not for repeated queries. Size 0: query the driver.
void announce_allocation(uint64_t address, size_t size, uint64_t owner = 0,
                         kept how = kept::listed);

// Announces memory that may exist but was never listed: UCX queries its type.
void announce_range(uint64_t address, size_t size);

// Records that a module belongs to a library, which frees its variables.
void note_module(uint64_t module, uint64_t library);

// Returns the library that a module belongs to, or the module itself.
uint64_t owner_of_module(uint64_t module);

// Notes that graphs allocate memory: destroying graphs releases it.
void note_graph_memory();
// `per_thread`: as in the _ptsz variants, the default stream is per thread.
bool is_capturing(void *stream, bool per_thread);

// Whether memory that begins there was announced as new. Also true after it was
// returned to its pool; mappings are not known.
bool is_announced(uint64_t base) noexcept;

// Records the allocations that UCX's own hooks announce.
void follow_ucx_events();

} // namespace ucx_ib_dmabuf::ucm
