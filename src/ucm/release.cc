// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/release.h"

#include "ucm/completeness.h"
#include "ucm/module_owners.h"

#include <cuda.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <utility>

extern "C" {
#include <ucm/event/event.h>
}

namespace ucx_ib_dmabuf {

DriverCalls driver_calls;
thread_local HookThread hook_thread;

namespace {

std::atomic<bool> graph_memory{false};

// Never destroyed: memory is released until the very end of the process.
RangeTable &ranges() noexcept
{
    alignas(RangeTable) static unsigned char storage[sizeof(RangeTable)];
    static RangeTable *table = new (storage) RangeTable;
    return *table;
}

// An allocation that is not in the table may be missed when its owner goes.
void list(uint64_t base, const RangeTable::Allocation &allocation)
{
    if (!ranges().insert(base, allocation)) {
        note_gap(Gap::MEMORY);
    }
}

void dispatch(ucm_event_type_t type, uint64_t address, size_t size,
              ucs_memory_type_t memory_type)
{
    ucm_event_t event;
    event.mem_type.address  = reinterpret_cast<void *>(address);
    event.mem_type.size     = size;
    event.mem_type.mem_type = memory_type;

    // The handlers may free memory of their own: their hooks must work.
    const bool nested      = hook_thread.announcing;
    hook_thread.announcing = true;
    ucm_event_enter();
    ucm_event_dispatch(type, &event);
    ucm_event_leave();
    hook_thread.announcing = nested;
}

void dispatch_free(uint64_t address, size_t size,
                   ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA)
{
    dispatch(UCM_EVENT_MEM_TYPE_FREE, address, size, type);
}

// UCS_MEMORY_TYPE_LAST is UCM's way to say that UCX shall ask the driver.
void dispatch_allocation(uint64_t address, size_t size)
{
    dispatch(UCM_EVENT_MEM_TYPE_ALLOC, address, size, UCS_MEMORY_TYPE_LAST);
}

// The allocation around an address, or a size of 0.
RangeTable::Range range_from_driver(uint64_t address)
{
    const auto by_context =
        driver_calls.address_range.load(std::memory_order_acquire);
    const auto attribute =
        driver_calls.pointer_attribute.load(std::memory_order_acquire);
    RangeTable::Range range = {0, 0};
    const RelaxedCapture relaxed;

    // The first way may want a current context, the second one never does.
    const bool found =
        ((by_context != nullptr) &&
         (by_context(&range.base, &range.size, address) == CUDA_OK)) ||
        ((attribute != nullptr) &&
         (attribute(&range.base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                    address) == CUDA_OK) &&
         (attribute(&range.size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) ==
          CUDA_OK));
    return (found && (address - range.base < range.size))
               ? range
               : RangeTable::Range{address, 0};
}

enum class Answer { THERE, GONE, UNKNOWN };

// Whether there is CUDA memory at an address. Every kind has this attribute.
// Only "invalid value" says that there is none: where a context is gone, a
// driver may complain about that ("invalid context", "context is destroyed"),
// which can mean the memory's context or the caller's.
Answer ask(uint64_t address)
{
    const auto attribute =
        driver_calls.pointer_attribute.load(std::memory_order_acquire);
    if (attribute == nullptr) {
        return Answer::UNKNOWN;
    }
    int type = 0;
    const CudaResult result =
        attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    return (result == CUDA_OK)              ? Answer::THERE
           : (result == CUDA_INVALID_VALUE) ? Answer::GONE
                                            : Answer::UNKNOWN;
}

// Another thread may have got these addresses anew, and its announcement may
// have come before that of the release: announce it again. What comes later is
// announced later.
class Newcomers {
public:
    explicit Newcomers(uint64_t serial) : since_(serial), looked_(serial) {}

    void announce_in(const RangeTable::Range &gone)
    {
        const uint64_t serial = ranges().serial();
        if (serial != looked_) { // seldom: this looks at the whole table
            newcomers_ = ranges().newer_than(since_);
            looked_    = serial;
        }
        for (const RangeTable::Range &range : newcomers_) {
            if ((range.base < gone.base + gone.size) &&
                (gone.base < range.base + range.size)) {
                dispatch_allocation(range.base, range.size);
            }
        }
        if (ask(gone.base) != Answer::GONE) { // a mapping, which is not listed
            dispatch_allocation(gone.base, gone.size);
        }
    }

private:
    const uint64_t since_;
    uint64_t looked_;
    std::vector<RangeTable::Range> newcomers_;
};

void on_ucx_event(ucm_event_type_t type, ucm_event_t *event, void *)
{
    if (hook_thread.announcing) {
        return; // ours: the table is up to date
    }
    const auto base = reinterpret_cast<uint64_t>(event->mem_type.address);
    if (type == UCM_EVENT_MEM_TYPE_ALLOC) {
        // Not exact: UCX announces pitched memory without its padding.
        list(base, {event->mem_type.size, 0, RangeTable::State::IN_USE, false});
    } else if (type == UCM_EVENT_MEM_TYPE_FREE) {
        ranges().remove(base);
    }
}

// What goes is not known: all does. UCX's cache of types cannot be told so.
void announce_without_memory()
{
    announce_everything();
    note_gap(Gap::MEMORY);
}

} // namespace

void Release::pointer(uint64_t address, ucs_memory_type_t type)
{
    if (outermost_ && (address != 0)) {
        announce(address, ranges().remove(address), type);
    }
}

void Release::to_pool(uint64_t address)
{
    if (outermost_ && (address != 0)) {
        announce(address, ranges().retire(address), UCS_MEMORY_TYPE_CUDA);
    }
}

void Release::opening(uint64_t address)
{
    pointer(address, UCS_MEMORY_TYPE_CUDA);
    is_opening_ = range_.size != 0;
}

void Release::announce(uint64_t address, size_t listed_size,
                       ucs_memory_type_t type)
{
    was_listed_ = listed_size != 0;
    range_      = was_listed_ ? RangeTable::Range{address, listed_size}
                              : range_from_driver(address);
    // Like UCM: what the driver does not know is announced as one byte, which
    // finds what was registered there.
    if (range_.size == 0) {
        range_.size = 1;
    }
    dispatch_free(range_.base, range_.size, type);
}

void Release::range(uint64_t address, size_t size)
{
    if (!outermost_ || (size == 0)) {
        return;
    }
    range_ = {address, size};
    dispatch_free(address, size);
}

void Release::owned(uint64_t owner)
{
    if (!outermost_) {
        return;
    }
    try {
        owner_ = owner;
        owned_ = ranges().take_owned(owner);
        for (const RangeTable::Range &range : owned_) {
            dispatch_free(range.base, range.size);
        }
    } catch (const std::bad_alloc &) {
        announce_without_memory();
    }
}

void Release::everything()
{
    if (outermost_) {
        announce_everything();
        swept_ = true;
    }
}

void Release::finish(CudaResult result)
{
    if (swept_) { // a driver may do it and report an earlier error
        announce_vanished();
    } else if (result != CUDA_OK) {
        take_back(true);
    } else {
        const RelaxedCapture relaxed;
        if (ask(range_.base) != Answer::GONE) {
            take_back(false); // others have it open, or it is another's by now
        }
    }
}

// The memory is still there, and UCX would take it for host memory.
void Release::take_back(bool size_is_sure)
{
    if (range_.size != 0) {
        if (was_listed_) {
            list(range_.base,
                 {range_.size, 0, RangeTable::State::IN_USE, size_is_sure});
        }
        dispatch_allocation(range_.base, range_.size);
    }
    for (const RangeTable::Range &range : owned_) {
        if (range.state == RangeTable::State::OWNED) {
            list(range.base, {range.size, owner_, range.state});
            dispatch_allocation(range.base, range.size);
        }
    }
}

void announce_vanished()
try {
    if (driver_calls.pointer_attribute.load(std::memory_order_acquire) ==
        nullptr) {
        return;
    }
    const RelaxedCapture relaxed;
    const uint64_t serial = ranges().serial();
    std::vector<RangeTable::Range> vanished, unknown, alive;
    for (const RangeTable::Range &range : ranges().snapshot()) {
        const Answer answer = ask(range.base);
        (answer == Answer::THERE  ? alive
         : answer == Answer::GONE ? vanished
                                  : unknown)
            .push_back(range);
    }
    for (const RangeTable::Range &range : vanished) {
        ranges().remove(range);
    }
    RangeTable::remove_overlapping(vanished, std::move(alive));
    Newcomers newcomers(serial);
    for (const RangeTable::Range &range : vanished) {
        dispatch_free(range.base, range.size);
        newcomers.announce_in(range);
    }
    for (const RangeTable::Range &range : unknown) {
        ranges().doubt(range); // other memory may be there unseen
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
                         Kept kept)
{
    if (address == 0) {
        return;
    }
    if (size == 0) {
        const RangeTable::Range range = range_from_driver(address);
        if (range.size == 0) {
            return;
        }
        address = range.base;
        size    = range.size;
    }
    if (kept == Kept::LISTED) {
        list(address, {size, owner});
    } else if (kept == Kept::OWNED) {
        if (ranges().size(address) == size) {
            return; // asked for again: nothing is new
        }
        list(address, {size, owner, RangeTable::State::OWNED});
    }
    dispatch_allocation(address, size);
}

void note_graph_memory()
{
    graph_memory.store(true, std::memory_order_relaxed);
    note_gap(Gap::GRAPHS);
}

bool graph_memory_noted()
{
    return graph_memory.load(std::memory_order_relaxed);
}

void follow_ucx_events()
{
    static std::once_flag once;
    std::call_once(once, [] {
        const int events   = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
        const int priority = 0;

        ranges();
        const auto in_child = [] {
            ranges().reset_after_fork();
            forget_modules_after_fork();
        };
        if (pthread_atfork(nullptr, nullptr, in_child) != 0) {
            note_gap(Gap::MEMORY);
        }
        // This also makes UCX install its hooks. Where it cannot, it refuses
        // the handler; ours are the only events then.
        if (ucm_set_event_handler(events, priority, on_ucx_event, nullptr) !=
            UCS_OK) {
            if (ucm_set_event_handler(events | UCM_EVENT_FLAG_NO_INSTALL,
                                      priority, on_ucx_event,
                                      nullptr) != UCS_OK) {
                note_gap(Gap::MEMORY);
            }
        }
    });
}

} // namespace ucx_ib_dmabuf
