// SPDX-License-Identifier: BSD-3-Clause
#include "release.h"
#include "cuda_api.h"
#include "dispatch.h"
#include <pthread.h>
#include <utility>

namespace ucx_ib_dmabuf::ucm {

constinit thread_local thread_state this_thread{};

namespace {

std::atomic<bool> graph_memory{false};

struct tables {
    range_table ranges;
    range_table modules; // that libraries returned, which own them
};

range_table &ranges() noexcept
{
    return immortal<tables>().ranges;
}

range_table &modules() noexcept
{
    return immortal<tables>().modules;
}

// An allocation not in the table may be missed when its owner is destroyed.
void note_range(const memory_range &range)
{
    if (!ranges().insert(range)) {
        note_gap(gap::memory);
    }
}

// Returns the allocation around an address, with size 0 if it is unknown.
memory_range range_from_driver(uint64_t address)
{
    const auto by_context = driver.address_range.load();
    const auto attribute  = driver.pointer_attribute.load();
    memory_range range    = {0, 0};
    const relaxed_capture relaxed;

    // The first query may need a current context, the second one never does.
    const bool found =
        ((by_context != nullptr) &&
         (by_context(&range.base, &range.size, address) == cuda_ok)) ||
        ((attribute != nullptr) &&
         (attribute(&range.base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                    address) == cuda_ok) &&
         (attribute(&range.size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) ==
          cuda_ok));
    return (found && (address - range.base < range.size))
               ? range
               : memory_range{address, 0};
}

enum class answer { there, gone, unknown };

// Whether CUDA memory exists at an address. Every kind has this attribute. Only
// "invalid value" means that there is none. After a context was destroyed, a
// driver may return "invalid context" or "context is destroyed", which can
// refer to the memory's context or to the caller's.
answer ask(uint64_t address)
{
    const auto attribute = driver.pointer_attribute.load();
    int type             = 0;
    const cuda_result result =
        (attribute == nullptr)
            ? -1
            : attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    return (result == cuda_ok)              ? answer::there
           : (result == cuda_invalid_value) ? answer::gone
                                            : answer::unknown;
}

// Announces again the memory that another thread allocated at released
// addresses: its announcement may have preceded that of the release. Later
// allocations are announced later.
class newcomers {
public:
    explicit newcomers(uint64_t serial) : since_(serial), looked_(serial) {}

    void announce_in(const memory_range &gone)
    {
        const uint64_t serial = ranges().serial();
        if (serial != looked_) { // seldom: this scans the whole table
            found_  = ranges().newer_than(since_);
            looked_ = serial;
        }
        for (const memory_range &range : found_) {
            if ((range.base < gone.base + gone.size) &&
                (gone.base < range.base + range.size)) {
                dispatch_allocation(range.base, range.size);
            }
        }
        if (ask(gone.base) != answer::gone) { // a mapping, which is not listed
            dispatch_allocation(gone.base, gone.size);
        }
    }

private:
    const uint64_t since_;
    uint64_t looked_;
    std::vector<memory_range> found_;
};

void on_ucx_event(ucm_event_type_t type, ucm_event_t *event, void *)
{
    if (this_thread.announcing) {
        return; // our own: the table is up to date
    }
    const auto base = reinterpret_cast<uint64_t>(event->mem_type.address);
    if (type == UCM_EVENT_MEM_TYPE_ALLOC) {
        // Not exact: UCX announces pitched memory without its padding. Our hook
        // of the driver call records the exact size afterwards.
        if (ranges().size(base) == 0) {
            note_range({base, event->mem_type.size, 0, state::in_use, false});
        }
    } else if (type == UCM_EVENT_MEM_TYPE_FREE) {
        ranges().retire(base);
    }
    pass_on(type, *event);
}

// The driver exports neither variables nor memory of other processes. UCX would
// fail to register these, but stages managed memory. UCX 1.22 and later tries
// the export itself, and imported memory can use CUDA IPC.
void announce_unexported(const memory_range &range)
{
    const bool tried = (range.owner == 0) && our_ucm().tries_exports;
    tried ? dispatch_allocation(range.base, range.size)
          : dispatch_allocation(range.base, range.size,
                                UCS_MEMORY_TYPE_CUDA_MANAGED);
}

// Unknown ranges were released. UCX's memory type cache ignores this event.
void announce_without_memory()
{
    announce_everything();
    note_gap(gap::memory);
}

} // namespace

void release::pointer(uint64_t address)
{
    if (address != 0) {
        announce(address, ranges().remove(address));
    }
}

void release::host_pointer(uint64_t address)
{
    if (address != 0) {
        announce(address, ranges().remove(address), UCS_MEMORY_TYPE_HOST);
    }
}

// Only graph memory may be freed in a capture.
void release::to_pool(uint64_t address, void *stream, bool per_thread)
{
    if ((address != 0) && !(graph_memory.load(std::memory_order_relaxed) &&
                            is_capturing(stream, per_thread))) {
        announce(address, ranges().retire(address));
    }
}

void release::opening(uint64_t address)
{
    pointer(address);
    range_.is   = state::owned;
    is_opening_ = range_.size != 0;
}

void release::announce(uint64_t address, size_t listed_size,
                       ucs_memory_type_t type)
{
    was_listed_ = listed_size != 0;
    range_      = was_listed_ ? memory_range{address, listed_size, unknown_pool}
                              : range_from_driver(address);
    // Like UCM: announces memory that the driver does not know as one byte,
    // which matches any registration there.
    if (range_.size == 0) {
        range_.size = 1;
    }
    const bool kept = take_registered(range_.base, range_.size) ||
                      !was_listed_ || (type == UCS_MEMORY_TYPE_HOST);
    dispatch_free(range_.base, range_.size, type, kept);
}

void release::range(uint64_t address, size_t size)
{
    if (size != 0) {
        range_ = {address, size};
        dispatch_free(address, size);
    }
}

void release::owned(state which, uint64_t owner)
try {
    modules_ = modules().take(which, owner);
    owned_   = ranges().take(which, owner);
    for (const memory_range &range : owned_) {
        dispatch_free(range.base, range.size);
    }
} catch (const std::bad_alloc &) {
    announce_without_memory();
}

void release::everything()
{
    announce_everything();
    swept_ = true;
}

void release::graphs()
{
    if (graph_memory.load(std::memory_order_relaxed)) {
        everything();
    }
}

void release::finish(cuda_result result)
{
    if (swept_) { // a driver may destroy it and return an earlier error
        announce_vanished();
    } else if (result != cuda_ok) {
        take_back(true);
    } else {
        const relaxed_capture relaxed;
        if (ask(range_.base) != answer::gone) {
            take_back(false); // still open elsewhere, or reallocated
        }
    }
}

// The memory still exists. UCX would treat it as host memory.
void release::take_back(bool size_is_sure)
{
    if (range_.size != 0) {
        if (was_listed_) {
            range_.exact = size_is_sure;
            note_range(range_);
        }
        (range_.is == state::owned)
            ? announce_unexported(range_)
            : dispatch_allocation(range_.base, range_.size);
    }
    for (const memory_range &range : owned_) {
        if (range.is == state::owned) {
            note_range(range);
            announce_unexported(range);
        }
    }
    for (const memory_range &module : modules_) {
        note_module(module.base, module.owner);
    }
}

void announce_range(uint64_t address, size_t size)
{
    this_thread.existing = true;
    dispatch_allocation(address, size);
    this_thread.existing = false;
}

void announce_vanished()
try {
    if (driver.pointer_attribute.load() == nullptr) {
        return;
    }
    const relaxed_capture relaxed;
    const uint64_t serial = ranges().serial();
    std::vector<memory_range> vanished, unknown, alive;
    for (const memory_range &range : ranges().snapshot()) {
        const answer said = ask(range.base);
        (said == answer::there  ? alive
         : said == answer::gone ? vanished
                                : unknown)
            .push_back(range);
    }
    for (const memory_range &range : vanished) {
        ranges().remove(range);
    }
    range_table::remove_overlapping(vanished, std::move(alive));
    newcomers fresh(serial);
    for (const memory_range &range : vanished) {
        dispatch_free(range.base, range.size);
        fresh.announce_in(range);
    }
    for (const memory_range &range : unknown) {
        ranges().doubt(range); // unseen memory may have replaced it
        dispatch_free(range.base, range.size);
        dispatch_allocation(range.base, range.size);
    }
} catch (const std::bad_alloc &) {
    announce_without_memory();
}

void announce_everything()
{
    dispatch_free(0, 0);
}

void announce_allocation(uint64_t address, size_t size, uint64_t owner,
                         kept how)
{
    if ((address != 0) && (size == 0)) {
        const memory_range range = range_from_driver(address);
        address                  = range.base;
        size                     = range.size;
    }
    if ((address == 0) || (size == 0)) {
        return;
    }
    if (how == kept::listed) {
        note_range({address, size, owner});
    } else if (how == kept::owned) {
        if (!this_thread.told && (ranges().size(address) == size)) {
            return; // a repeated query: nothing is new
        }
        note_range({address, size, owner, state::owned});
    } else {
        ranges().remove(address);
    }
    if (how == kept::owned) {
        announce_unexported({address, size, owner});
    } else if (!this_thread.told) {
        dispatch_allocation(address, size);
    }
}

void note_module(uint64_t module, uint64_t library)
{
    if (!modules().insert({module, 1, library, state::owned})) {
        note_gap(gap::memory);
    }
}

uint64_t owner_of_module(uint64_t module)
{
    const uint64_t library = modules().owner(module);
    return (library == 0) ? module : library;
}

bool is_capturing(void *stream, bool per_thread)
{
    const auto ask = driver.is_capturing.load();
    int status     = CU_STREAM_CAPTURE_STATUS_NONE;

    if (per_thread && (stream == nullptr)) {
        stream = stream_per_thread();
    }
    return (ask != nullptr) && (ask(stream, &status) == cuda_ok) &&
           (status != CU_STREAM_CAPTURE_STATUS_NONE);
}

void note_graph_memory()
{
    graph_memory.store(true, std::memory_order_relaxed);
    note_gap(gap::graphs);
}

bool is_announced(uint64_t base) noexcept
{
    return ranges().contains(base);
}

void follow_ucx_events()
{
    static std::once_flag once;
    std::call_once(once, [] {
        const int events   = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
        const int priority = 0;

        // Another thread of the parent may have held a lock or been changing a
        // map: the child creates new tables, and leaks the old ones.
        const auto in_child = [] { new (&immortal<tables>()) tables; };
        immortal<tables>();
        if (pthread_atfork(nullptr, nullptr, in_child) != 0) {
            note_gap(gap::memory);
        }
        // This also makes UCX install its hooks. If that fails, UCX refuses the
        // handler; then the only events are ours.
        if ((our_ucm().set_event_handler(events, priority, on_ucx_event,
                                         nullptr) != UCS_OK) &&
            (our_ucm().set_event_handler(events | UCM_EVENT_FLAG_NO_INSTALL,
                                         priority, on_ucx_event,
                                         nullptr) != UCS_OK)) {
            note_gap(gap::memory);
        }
    });
}

} // namespace ucx_ib_dmabuf::ucm
