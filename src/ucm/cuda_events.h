// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <string>
#include <uct/ib_dmabuf/ucx/ucm.h>

// Announces the releases of CUDA memory that UCX's own CUDA module misses to
// each loaded UCX, before the driver call proceeds (docs/events.md).
//
// Subscribe after cuda_events_install(), by the first UCM's
// ucm_set_event_handler() with UCM_EVENT_FLAG_NO_INSTALL. Without that flag the
// subscription fails if UCX's hooks cannot be installed.
//
// Handlers run in the thread that releases the memory, perhaps in several
// threads at once. They also get memory that was never registered, and may get
// one release repeatedly. A handler must not subscribe or unsubscribe.
namespace ucx_ib_dmabuf {

// Installs the hooks, once per process. Idempotent and thread-safe; a call that
// found no libcuda may be repeated after libcuda was loaded. Never loads
// libcuda, calls cuInit or creates a context.
// UCS_OK: installed, perhaps not completely, see cuda_events_complete();
// UCS_ERR_UNSUPPORTED: this process has no libcuda or no UCM, or was forked
// while its parent installed the hooks;
// UCS_ERR_NO_MEMORY: the call may be repeated, but stays incomplete.
ucs_status_t cuda_events_install() noexcept;

// Announces the addresses that may be CUDA memory older than the hooks, with an
// unknown type, for a UCX without a CUDA module. Thread-safe.
void cuda_events_announce_existing() noexcept;

// Whether every known way to release CUDA memory is hooked and verified. False
// before cuda_events_install(), and with UCX_MEM_CUDA_HOOK_MODE=none. May
// become false at any time, and then stays false. Thread-safe and cheap.
bool cuda_events_complete() noexcept;

// Why the events are incomplete; empty if they are complete. Thread-safe.
std::string cuda_events_missing() noexcept;

using incomplete_handler = void (*)(const char *why, void *arg);

// Calls the handler when cuda_events_complete() becomes false, and at once if
// it is false. Only one subscriber, permanently, after cuda_events_install().
//
// The handler runs in the thread that detects the missing hook, inside a CUDA
// call, before that returns memory that may be released unseen. No lock is held
// but UCM's read lock. It runs once for each kind of reason. It must not throw.
void cuda_events_on_incomplete(incomplete_handler handler, void *arg);

// For what UCX's events lack. The functions run in the thread that calls CUDA,
// perhaps in several at once, with no lock held. They must not throw. Each may
// be null.
struct cuda_handlers {
    // An allocation failed with CUDA_ERROR_OUT_OF_MEMORY. May wait for the
    // deregistration of memory that the program has released, which the driver
    // cannot reuse before. Returns whether any was deregistered. If so, the
    // driver is called once more, and the program sees only that result. Not
    // called for its own allocations.
    bool (*out_of_memory)(void *arg) = nullptr;
    // cuMemAlloc() or cuMemAllocPitch() returned this, after its event.
    void (*allocated)(uint64_t address, size_t size, void *arg) = nullptr;
    // The call of the driver that follows may destroy a context.
    void (*context_end)(void *arg) = nullptr;
    void *arg                      = nullptr;
};

// Only one subscriber, permanently, set at any time.
void cuda_events_subscribe(const cuda_handlers &handlers);

// Whether the hooks saw the allocation that begins there. Memory older than the
// hooks and mappings (cuMemMap) are not known.
bool cuda_events_saw_allocation(uintptr_t base) noexcept;

// The same, for memory of cuMemAlloc() or of a pool of this process: neither
// another process's or API's, nor a module's variable.
bool cuda_events_saw_own_allocation(uintptr_t base, bool of_pool) noexcept;

// Whether the event being dispatched in this thread is for memory older than
// the hooks (cuda_events_announce_existing): nothing has changed.
bool cuda_event_is_of_old_memory() noexcept;

// Whether UCX's hook of the runtime (cudaMalloc) announces memory that a hook
// of the driver has announced in this call.
bool cuda_event_is_repeated(ucm_event_type_t type,
                            const ucm_event_t &event) noexcept;

// Whether a UCM_EVENT_MEM_TYPE_FREE means that any CUDA memory may be freed. A
// context, a device or graph memory is being destroyed then, and not all ranges
// are known. HANDLERS MUST drop every registration.
//
// Such an event has address 0 and size 0. UCX's ucs_rcache, too, treats it as
// the whole address space. UCX's memory type cache has to ignore it, as some
// memory may stay allocated (another context's).
inline bool cuda_event_is_everything(const ucm_event_t &event)
{
    return (event.mem_type.address == nullptr) && (event.mem_type.size == 0);
}

} // namespace ucx_ib_dmabuf
