// SPDX-License-Identifier: BSD-3-Clause
#include "announce.h"
#include "code_patch.h"
#include <optional>
#include <span>
#include <uct/ib_dmabuf/fork.h>

namespace ucx_ib_dmabuf::ucm {

constinit thread_local thread_state this_thread{};

namespace {

struct tables {
    range_table ranges, modules;
};

std::atomic<bool> graph_memory{false};

// Without a type UCX queries the driver. If UCP cannot have registered released
// memory, a UCX without CUDA is only made to query the type again.
void dispatch(std::span<const ucm_functions *const> instances,
              ucm_event_type_t type, uint64_t address, size_t size,
              std::optional<ucs_memory_type_t> memory_type,
              bool may_be_cached = true)
{
    if (const char *why = overwritten_patch()) {
        note_missing(missing_hook::overwritten, why);
    }
    if (instances.empty()) {
        return;
    }
    // The handlers may free memory, and the hooks then call this again.
    const bool nested      = this_thread.announcing;
    this_thread.announcing = true;
    for (const ucm_functions *ucm : instances) {
        const bool hears = may_be_cached || ucm->has_cuda;
        const auto known = memory_type.value_or(ucm->unknown_type);
        ucm_event_t event{};
        event.mem_type.address  = reinterpret_cast<void *>(address);
        event.mem_type.size     = size;
        event.mem_type.mem_type = hears ? known : ucm->unknown_type;
        event.mem_type.sys_dev  = 255; // unknown
        ucm->event_enter();
        ucm->event_dispatch(hears ? type : UCM_EVENT_MEM_TYPE_ALLOC, &event);
        ucm->event_leave();
    }
    this_thread.announcing = nested;
}

// Announces to the others an event of the first UCX's own hooks: their hooks
// may be missing, or find the functions patched. A duplicate does no harm.
void pass_on(ucm_event_type_t type, const ucm_event_t &event)
{
    const auto said     = event.mem_type.mem_type;
    const auto address  = reinterpret_cast<uint64_t>(event.mem_type.address);
    const bool released = type == UCM_EVENT_MEM_TYPE_FREE;

    dispatch(all_ucm().subspan(1), type, address, event.mem_type.size,
             (said == our_ucm().unknown_type) ? std::nullopt
                                              : std::optional(said),
             !released || take_registered(address, event.mem_type.size) ||
                 (said == UCS_MEMORY_TYPE_HOST));
}

void on_ucx_event(ucm_event_type_t type, ucm_event_t *event, void *)
{
    if (this_thread.announcing) {
        return; // our own: the table is up to date
    }
    const auto base = reinterpret_cast<uint64_t>(event->mem_type.address);
    if (type == UCM_EVENT_MEM_TYPE_ALLOC) {
        this_thread.ucx_announced = base; // our hook lists it afterwards
    } else if (type == UCM_EVENT_MEM_TYPE_FREE) {
        ranges().retire(base);
    }
    pass_on(type, *event);
}

// Another thread of the parent may have held a lock or been changing a map: the
// child creates new tables, and leaks the old ones.
void forget_tables()
{
    new (&immortal<tables>()) tables;
}

} // namespace

range_table &ranges() noexcept
{
    return immortal<tables>().ranges;
}

range_table &modules() noexcept
{
    return immortal<tables>().modules;
}

void note_range(range_table &to, const memory_range &range)
{
    if (!to.insert(range)) {
        note_lack_of_memory();
    }
}

// These attributes need no current context, unlike cuMemGetAddressRange.
memory_range range_from_driver(uint64_t address)
{
    memory_range range = {0, 0};
    const relaxed_capture relaxed(driver);

    const bool found =
        (driver.pointer_get_attribute(&range.base,
                                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      address) == CUDA_SUCCESS) &&
        (driver.pointer_get_attribute(&range.size,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      address) == CUDA_SUCCESS);
    return (found && (address - range.base < range.size))
               ? range
               : memory_range{address, 0};
}

// Every kind of memory has this attribute. Only "invalid value" means that
// there is none. After a context was destroyed, a driver may return "invalid
// context" or "context is destroyed", which can refer to the memory's context
// or to the caller's.
cuda_result ask(uint64_t address)
{
    int type                 = 0;
    const cuda_result result = driver.pointer_get_attribute(
        &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    // A coherent GPU reads all host memory, and a driver may answer for it.
    return ((result == CUDA_SUCCESS) && (type == 0)) ? CUDA_ERROR_INVALID_VALUE
                                                     : result;
}

void announce_release(uint64_t address, size_t size, ucs_memory_type_t type,
                      bool may_be_cached)
{
    dispatch(all_ucm(), UCM_EVENT_MEM_TYPE_FREE, address, size, type,
             may_be_cached);
}

void announce_everything()
{
    announce_release(0, 0);
}

void announce_vanished()
try {
    const relaxed_capture relaxed(driver);
    std::vector<memory_range> vanished, live;
    for (const memory_range &range : ranges().snapshot()) {
        const cuda_result said = ask(range.base);
        if (said == CUDA_SUCCESS) {
            if (range.is != state::retired) {
                live.push_back(range);
            }
            continue;
        }
        (said == CUDA_ERROR_INVALID_VALUE) ? ranges().remove(range)
                                           : ranges().doubt(range);
        vanished.push_back(range);
    }
    for (const memory_range &range : vanished) {
        if (!overlaps_any(range, live)) {
            announce_release(range.base, range.size);
            // Another thread may have got, and announced, new memory there
            // before.
            announce_memory(range.base, range.size);
        }
    }
} catch (const std::bad_alloc &) {
    // UCX's memory type cache ignores "everything".
    announce_everything();
    note_lack_of_memory();
}

void announce_memory(uint64_t address, size_t size)
{
    dispatch(all_ucm(), UCM_EVENT_MEM_TYPE_ALLOC, address, size, {});
}

// The driver does not export these. UCX would fail to register them, but stages
// managed memory. UCX 1.22 and later tries the export itself, and imported
// memory can use CUDA IPC.
void announce_unexported(const memory_range &range)
{
    if ((range.owner == 0) && our_ucm().tries_exports) {
        announce_memory(range.base, range.size);
    } else {
        dispatch(all_ucm(), UCM_EVENT_MEM_TYPE_ALLOC, range.base, range.size,
                 UCS_MEMORY_TYPE_CUDA_MANAGED);
    }
}

void announce_allocation(uint64_t address, size_t size, uint64_t owner,
                         listing how)
{
    if ((address != 0) && (size == 0)) {
        const memory_range range = range_from_driver(address);
        address                  = range.base;
        size                     = range.size;
    }
    if ((address == 0) || (size == 0)) {
        return;
    }
    const bool announced = this_thread.ucx_announced == address;
    if (how == listing::with_owner) {
        if (announced || (ranges().look_up(address).size != size)) {
            const memory_range range{address, size, owner, state::owned};
            note_range(ranges(), range);
            announce_unexported(range);
        } // else a repeated query: nothing is new
        return;
    }
    if (how == listing::until_freed) {
        note_range(ranges(), {address, size, owner});
    } else {
        ranges().remove(address);
    }
    if (!announced) {
        announce_memory(address, size);
    }
}

void release::announce_free(uint64_t address)
{
    if (address != 0) {
        announce(ranges().remove(address));
    }
}

void release::announce_host_free(uint64_t address)
{
    if (address != 0) {
        announce(ranges().remove(address), UCS_MEMORY_TYPE_HOST);
    }
}

// Only graph memory may be freed in a capture.
void release::announce_pool_free(uint64_t address, void *stream,
                                 bool per_thread)
{
    if ((address != 0) && !(graph_memory.load(std::memory_order_relaxed) &&
                            is_capturing(stream, per_thread))) {
        announce(ranges().retire(address));
    }
}

void release::announce_ipc_close(uint64_t address)
{
    announce_free(address);
    range_.is   = state::owned;
    is_counted_ = range_.size != 0;
}

void release::announce(const memory_range &listed, ucs_memory_type_t type)
{
    const bool is_listed = listed.size != 0;
    range_               = is_listed ? listed : range_from_driver(listed.base);
    // Like UCM: announces memory that the driver does not know as one byte,
    // which matches any registration there.
    if (range_.size == 0) {
        range_.size = 1;
    }
    const bool may_be_cached = take_registered(range_.base, range_.size) ||
                               !is_listed || (type == UCS_MEMORY_TYPE_HOST);
    announce_release(range_.base, range_.size, type, may_be_cached);
}

void release::announce_unmap(uint64_t address, size_t size)
{
    if (size != 0) {
        range_ = {address, size};
        announce_release(address, size);
    }
}

void release::announce_owned(state which, uint64_t owner)
try {
    modules_ = modules().take(which, owner);
    owned_   = ranges().take(which, owner);
    for (const memory_range &range : owned_) {
        announce_release(range.base, range.size);
    }
} catch (const std::bad_alloc &) {
    announce_everything();
    note_lack_of_memory();
}

void release::announce_all()
{
    announce_everything();
    note_context_end();
    all_ = true;
}

void release::announce_graph_free()
{
    if (graph_memory.load(std::memory_order_relaxed)) {
        announce_all();
    }
}

void release::finish(cuda_result result)
{
    if (all_) { // a driver may destroy it and return an earlier error
        announce_vanished();
    } else if (result != CUDA_SUCCESS) {
        take_back(true);
    } else {
        const relaxed_capture relaxed(driver);
        if (ask(range_.base) != CUDA_ERROR_INVALID_VALUE) {
            take_back(false); // still open elsewhere, or reallocated
        }
    }
}

// The memory still exists. UCX would treat it as host memory.
void release::take_back(bool size_is_sure)
{
    if (range_.size != 0) {
        if (range_.serial != 0) {
            range_.exact = size_is_sure;
            note_range(ranges(), range_);
        }
        (range_.is == state::owned) ? announce_unexported(range_)
                                    : announce_memory(range_.base, range_.size);
    }
    for (const memory_range &range : owned_) {
        if (range.is == state::owned) {
            note_range(ranges(), range);
            announce_unexported(range);
        }
    }
    for (const memory_range &module : modules_) {
        note_range(modules(), module);
    }
}

bool is_capturing(void *stream, bool per_thread)
{
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (per_thread && (stream == nullptr)) {
        stream = stream_per_thread();
    }
    return (driver.stream_is_capturing(static_cast<CUstream>(stream),
                                       &status) == CUDA_SUCCESS) &&
           (status != CU_STREAM_CAPTURE_STATUS_NONE);
}

void note_graph_memory()
{
    graph_memory.store(true, std::memory_order_relaxed);
    note_missing(missing_hook::graph,
                 "graphs allocate memory, and free it while they run");
}

void follow_ucx_events()
{
    static std::once_flag once;
    std::call_once(once, [] {
        const int events   = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
        const int priority = 0;

        immortal<tables>();
        if (at_fork<nullptr, forget_tables>() != 0) {
            note_lack_of_memory();
        }
        // This also makes UCX install its hooks. If that fails, UCX refuses the
        // handler; then the only events are ours.
        if ((our_ucm().set_event_handler(events, priority, on_ucx_event,
                                         nullptr) != UCS_OK) &&
            (our_ucm().set_event_handler(events | UCM_EVENT_FLAG_NO_INSTALL,
                                         priority, on_ucx_event,
                                         nullptr) != UCS_OK)) {
            note_lack_of_memory();
        }
    });
}

} // namespace ucx_ib_dmabuf::ucm
