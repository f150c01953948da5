// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ucm/range_table.h"

#include <ucs/memory/memory_type.h>

/**
 * What a hook does around the driver call: announce the release before it, take
 * the announcement back if the driver refused, announce new memory after it.
 */
namespace ucx_ib_dmabuf {

/** CUresult and cudaError_t agree on these. */
using CudaResult                          = int;
constexpr CudaResult CUDA_OK              = 0;
constexpr CudaResult CUDA_INVALID_VALUE   = 1;
constexpr uint64_t CUDA_STREAM_PER_THREAD = 2;

/** Driver functions that the hooks themselves call; nullptr where missing. */
struct DriverCalls {
    std::atomic<CudaResult (*)(uint64_t *, size_t *, uint64_t)> address_range;
    std::atomic<CudaResult (*)(void *, int, uint64_t)> pointer_attribute;
    std::atomic<CudaResult (*)(int, unsigned *, int *)> primary_state;
    std::atomic<CudaResult (*)(void *, int *)> is_capturing;
    std::atomic<CudaResult (*)(int *)> exchange_capture_mode;
};
extern DriverCalls driver_calls;

/**
 * While it lives, what this thread asks of the driver invalidates no stream
 * capture, neither its own nor, in the global mode, another thread's. Not for
 * the program's own calls: those keep the mode that the program chose.
 */
class RelaxedCapture {
public:
    RelaxedCapture()
        : exchange_(driver_calls.exchange_capture_mode.load(
              std::memory_order_acquire)),
          exchanged_((exchange_ != nullptr) && (exchange_(&mode_) == CUDA_OK))
    {
    }
    ~RelaxedCapture()
    {
        if (exchanged_) {
            exchange_(&mode_);
        }
    }
    RelaxedCapture(const RelaxedCapture &)            = delete;
    RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
    int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED; then the thread's own
    CudaResult (*exchange_)(int *);
    bool exchanged_;
};

/** Per thread; small, as it takes static thread-local storage. */
struct HookThread {
    const void *seen;     /**< while probing: the hook that was reached */
    uint16_t releases;    /**< hooked releases that this thread is in */
    uint16_t allocations; /**< hooked allocations that this thread is in */
    bool probing;         /**< hooks only note that they were reached */
    bool announcing;      /**< the event being dispatched is ours */
};
extern thread_local HookThread hook_thread
    __attribute__((tls_model("initial-exec")));

/** One release, from before the driver call until after it. */
class Release {
public:
    Release() : outermost_(hook_thread.releases == 0) {}
    ~Release()                          = default;
    Release(const Release &)            = delete;
    Release &operator=(const Release &) = delete;

    /** One allocation, by its address. 0 is no memory. */
    void pointer(uint64_t address, ucs_memory_type_t type);

    /** One allocation that goes back to its pool. */
    void to_pool(uint64_t address);

    /** A range of mappings. */
    void range(uint64_t address, size_t size);

    /** One opening of memory that may have been opened more than once. */
    void opening(uint64_t address);

    /** What was given back to this pool, or belongs to this module. */
    void owned(uint64_t owner);

    /** Memory that we cannot name, perhaps all. */
    void everything();

    /** Call the driver. Announce what follows from its answer. */
    template <class Call>
    CudaResult through(Call &&driver)
    {
        ++hook_thread.releases;
        const CudaResult result = driver();
        --hook_thread.releases;
        if ((result != CUDA_OK) || swept_ || is_opening_) {
            finish(result);
        }
        return result;
    }

private:
    void finish(CudaResult result);

    void announce(uint64_t address, size_t listed_size, ucs_memory_type_t type);
    void take_back(bool size_is_sure);

    bool outermost_;
    bool swept_              = false;
    bool is_opening_         = false;
    bool was_listed_         = false;
    RangeTable::Range range_ = {0, 0};     // to take back; size 0: nothing
    std::vector<RangeTable::Range> owned_; // the same
    uint64_t owner_ = 0;
};

/**
 * Announce the allocations that the driver does not know any more, after a
 * context or the like was destroyed. Where its answer leaves open whether the
 * memory is there, announce that it goes and that something is there: caches
 * register anew then, and ask for its type.
 */
void announce_vanished();

/**
 * A CUDA runtime starts, perhaps one that was loaded since the hooks were
 * installed. It holds a lock of its own here, which others want who hold the
 * dynamic loader's: a hook must not call the loader, and leaves that to
 * cuda_events_refresh().
 */
inline std::atomic<bool> runtimes_may_be_new{false};

/** Announce that any CUDA memory may be going. */
void announce_everything();

/** Whether the caller is the outermost hooked allocation of this thread. */
template <class Call>
CudaResult through_allocation(Call &&driver, bool &outermost)
{
    outermost               = hook_thread.allocations++ == 0;
    const CudaResult result = driver();
    --hook_thread.allocations;
    return result;
}

/** What becomes of new memory. */
enum class Kept {
    LISTED,   /**< until it is freed, or its context goes */
    OWNED,    /**< until its owner goes */
    UNLISTED, /**< a mapping, which outlives contexts */
};

/** Announce new memory. A size of 0 means: ask the driver. */
void announce_allocation(uint64_t address, size_t size, uint64_t owner,
                         Kept kept);

/** Graph memory is around: graphs going away concern us. */
void note_graph_memory();
bool graph_memory_noted();

/** Follow the allocations that UCX's own hooks announce. */
void follow_ucx_events();

} // namespace ucx_ib_dmabuf
