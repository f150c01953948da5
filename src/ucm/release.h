// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "range_table.h"
#include "uct/ib_dmabuf/host/ucm.h"
#include <new>

// What a hook does around the driver call: announce the release before it, take
// the announcement back if the driver refused, announce new memory after it.
namespace ucx_ib_dmabuf::ucm {

// CUresult and cudaError_t agree on these.
using cuda_result                        = int;
constexpr cuda_result cuda_ok            = 0;
constexpr cuda_result cuda_invalid_value = 1;
constexpr cuda_result cuda_out_of_memory = 2;

// The one object of a type that lives until the process ends, as hooks do, and
// needs no memory to be made.
template <class T>
T &immortal() noexcept
{
    alignas(T) static unsigned char storage[sizeof(T)];
    static T *one = new (storage) T;
    return *one;
}

// The UCM whose hooks and events we rely on; there must be one.
inline const ucm_functions &our_ucm()
{
    return *all_ucm().front();
}

// Driver functions that the hooks themselves call; null where missing.
struct driver_calls {
    std::atomic<cuda_result (*)(uint64_t *, size_t *, uint64_t)> address_range;
    std::atomic<cuda_result (*)(void *, int, uint64_t)> pointer_attribute;
    std::atomic<cuda_result (*)(int, unsigned *, int *)> primary_state;
    std::atomic<cuda_result (*)(void *, int *)> is_capturing;
    std::atomic<cuda_result (*)(int *)> exchange_capture_mode;
};
inline driver_calls driver;

// While it lives, what this thread asks of the driver invalidates no stream
// capture, neither its own nor, in the global mode, another thread's. Not for
// the program's own calls: those keep the mode that the program chose.
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
    int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED; then the thread's own
    cuda_result (*exchange_)(int *);
    bool exchanged_;
};

// Per thread. Not in static thread-local storage: of that there may be none
// left where a library is opened late.
struct thread_state {
    bool announcing; // the event being dispatched is ours
    bool existing;   // it is of memory that is older than the hooks
    bool told;       // UCX's hook has announced the allocation
    bool reclaiming; // the reclaim handler runs
};
extern constinit thread_local thread_state this_thread;

// One release, from before the driver call until after it. A release inside
// another one announces its memory once more: a thread may jump out of a call
// (siglongjmp, an exception), so no hook can know whether it is inside another.
class release {
public:
    release()                           = default;
    ~release()                          = default;
    release(const release &)            = delete;
    release &operator=(const release &) = delete;

    // One allocation, by its address. 0 is no memory.
    void pointer(uint64_t address);
    void host_pointer(uint64_t address);
    // One allocation that goes back to its pool; in a capture, nothing.
    template <bool per_thread>
    void to_pool(uint64_t address, void *stream)
    {
        to_pool(address, stream, per_thread);
    }
    // A range of mappings.
    void range(uint64_t address, size_t size);
    // One opening of memory that may have been opened more than once.
    void opening(uint64_t address);
    // What was given back to this pool, or belongs to this module or library.
    void pool(uint64_t pool) { owned(state::retired, pool); }
    void module(uint64_t module) { owned(state::owned, module); }
    // Memory that we cannot name, perhaps all.
    void everything();
    // The same where graphs allocate memory; else this releases nothing.
    void graphs();

    // Calls the driver, and announces what follows from its answer.
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
    memory_range range_ = {0, 0};       // to take back; size 0: nothing
    std::vector<memory_range> owned_;   // the same
    std::vector<memory_range> modules_; // the same
};

// Why releases may go unseen. Once noted, a gap stays.
enum class gap : unsigned {
    hooks  = 1, // a function could not be hooked
    graphs = 2, // graphs allocate memory
    memory = 4, // something could not be written down
};

// Notes a gap, and tells the subscriber if it is new: `why`, which only `hooks`
// needs. Takes no lock; call it with none held.
void note_gap(gap which, const char *why = nullptr) noexcept;

// Where something has changed the beginning of a hooked function since, has
// cuda_events_refresh() note it. Takes no lock.
void check_hooks() noexcept;

// Announces the allocations that the driver does not know any more, after a
// context or the like was destroyed. Where its answer leaves open whether the
// memory is there, announces that it goes and that something is there: caches
// register anew then, and ask for its type.
void announce_vanished();

// Announces that any CUDA memory may be going.
void announce_everything();

// What becomes of new memory.
enum class kept {
    listed,   // until it is freed, or its context goes
    owned,    // until its owner, if any, goes or it is closed; never exported
    unlisted, // a mapping, which outlives contexts
};

// Announces new memory, and what is owned once only, unless UCX's hook did. A
// size of 0 means: ask the driver.
void announce_allocation(uint64_t address, size_t size, uint64_t owner = 0,
                         kept how = kept::listed);

// Announces that there may be memory that was never listed: UCX shall ask.
void announce_range(uint64_t address, size_t size);

// A module belongs to a library: its variables go with that.
void note_module(uint64_t module, uint64_t library);

// The library that a module belongs to, or the module itself.
uint64_t owner_of_module(uint64_t module);

// Graph memory is around: graphs going away concern us.
void note_graph_memory();
// The default stream is another one in the _ptsz variants (`per_thread`).
bool is_capturing(void *stream, bool per_thread);

// Whether memory that begins there was announced as new and not as gone;
// mappings are not known.
bool is_announced(uint64_t base) noexcept;

// Follows the allocations that UCX's own hooks announce.
void follow_ucx_events();

} // namespace ucx_ib_dmabuf::ucm
