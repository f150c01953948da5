// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "uct/ib_dmabuf/host/ucm.h"
#include <atomic>
#include <string>

// CUDA release events for UCM.
//
// Announces, through ucm_event_dispatch(), the releases of CUDA memory that
// UCX's own CUDA module does not announce, before the driver call proceeds.
// docs/events.md lists what is hooked and how. Of several copies of UCX each is
// told of these; where one hooks by itself, only the first one's hooks are
// relied on.
//
// Subscribe with the first UCM's ucm_set_event_handler(), events
// UCM_EVENT_MEM_TYPE_ALLOC and UCM_EVENT_MEM_TYPE_FREE with
// UCM_EVENT_FLAG_NO_INSTALL, after cuda_events_install(), which has made UCX
// install its own hooks; without NO_INSTALL the subscription fails where UCX's
// hooks cannot be installed.
//
// Handlers run in the thread that releases the memory, before it enters the
// driver, perhaps in several threads at once, for memory that was never
// registered, and more than once for one release. A handler must not
// (un)subscribe.
namespace ucx_ib_dmabuf {

// Installs the hooks, once per process. Idempotent and thread-safe; a call that
// found no libcuda may be repeated after libcuda was loaded. Never loads
// libcuda, never calls cuInit, never creates a context.
// UCS_OK: installed, perhaps not completely, see cuda_events_complete();
// UCS_ERR_UNSUPPORTED: no libcuda, or no UCM, in this process, or it was forked
// while its parent's hooks were installed;
// UCS_ERR_NO_MEMORY: it may be repeated, but is not complete.
ucs_status_t cuda_events_install() noexcept;

// Announces, as memory of a type that UCX shall ask for, the addresses at which
// there may be CUDA memory that was there before the hooks: for a UCX that has
// no CUDA module to do so. Thread-safe.
void cuda_events_announce_existing() noexcept;

// Hooks runtimes that were loaded since the last time. Call it where memory is
// registered, and no lock is held: it may call the dynamic loader. Thread-safe
// and cheap (one atomic load) while no runtime started.
void cuda_events_refresh() noexcept;
// Whether that has something to do: for who would rather not call it.
const std::atomic<bool> &cuda_events_need_refresh() noexcept;

// Whether every known way of releasing CUDA memory is hooked and verified.
// False before cuda_events_install(), and with UCX_MEM_CUDA_HOOK_MODE=none. It
// may become false at any time, and then stays so. Thread-safe and cheap.
bool cuda_events_complete() noexcept;

// What is missing and why, as text for one warning. Empty if complete.
// Thread-safe; may allocate memory.
std::string cuda_events_missing() noexcept;

using incomplete_handler = void (*)(const char *why, void *arg);

// The handler is told when cuda_events_complete() becomes false, and at once if
// it is. One subscriber, for good, after cuda_events_install().
//
// Called in the thread that finds it out, in the middle of a call of CUDA's,
// before memory whose release may go unseen is given out; with no lock held;
// more than once if there are several reasons. It must not throw.
void cuda_events_on_incomplete(incomplete_handler handler, void *arg);

using reclaim_handler = bool (*)(void *arg);

// The handler is called where the driver answers an allocation with
// CUDA_ERROR_OUT_OF_MEMORY. It may wait until memory that the program has
// released is deregistered, which keeps it from the driver, and returns whether
// any was. Then the driver is asked once more, and the program sees only that
// answer. One subscriber, for good, at any time.
//
// Called in the thread that allocates, perhaps in several at once, with no lock
// held, not for an allocation within the handler. It must not throw.
void cuda_events_on_out_of_memory(reclaim_handler handler, void *arg);

// Whether the allocation that begins there was seen; memory that was there
// before the hooks, and what is mapped (cuMemMap), are not known.
bool cuda_events_saw_allocation(uintptr_t base) noexcept;

// Whether the event that is being told in this thread is of memory that is
// older than the hooks (cuda_events_announce_existing): nothing has changed.
bool cuda_event_is_of_old_memory() noexcept;

// Whether a UCM_EVENT_MEM_TYPE_FREE says that any CUDA memory may be going: a
// context, a device or a graph's memory is being torn down and the ranges are
// not all known. HANDLE THIS: drop every region.
//
// Such an event has the address 0 and the size 0, that is 2^64 in a size_t.
// UCX's ucs_rcache takes that for the whole address space too; UCX's memory
// type cache ignores it, as it must: memory that lives on (another context's)
// would be taken for host memory if its type were forgotten.
inline bool cuda_event_is_everything(const ucm_event_t &event)
{
    return (event.mem_type.address == nullptr) && (event.mem_type.size == 0);
}

} // namespace ucx_ib_dmabuf
