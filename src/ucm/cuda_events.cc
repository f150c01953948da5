// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_events.h"
#include "announce.h"
#include "maps.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

// The reasons of missing hooks, and the subscribers beside UCM's own.
namespace ucx_ib_dmabuf {
namespace {

// These are set once: the argument before the handler.
std::atomic<incomplete_handler> subscriber{nullptr};
void *subscriber_arg;
cuda_handlers given;
std::atomic<const cuda_handlers *> handlers{nullptr}; // once `given` is set

// Why hooks are missing, by missing_hook; nullptr: they are not.
std::array<std::atomic<const char *>, 4> missing;

} // namespace

namespace ucm {

void note_missing(missing_hook which, const char *why) noexcept
{
    const char *none = nullptr;

    if (missing[size_t(which)].compare_exchange_strong(none, why)) {
        if (const incomplete_handler handler = subscriber.load()) {
            handler(why, subscriber_arg);
        }
    }
}

bool reclaim() noexcept
{
    const cuda_handlers *to = handlers.load();
    if ((to == nullptr) || (to->out_of_memory == nullptr) ||
        std::exchange(this_thread.reclaiming, true)) {
        return false;
    }
    const bool reclaimed   = to->out_of_memory(to->arg);
    this_thread.reclaiming = false;
    return reclaimed;
}

void note_allocated(uint64_t address, size_t size) noexcept
{
    const cuda_handlers *to = handlers.load();
    if ((to != nullptr) && (to->allocated != nullptr)) {
        to->allocated(address, size, to->arg);
    }
}

void note_context_end() noexcept
{
    const cuda_handlers *to = handlers.load();
    if ((to != nullptr) && (to->context_end != nullptr)) {
        to->context_end(to->arg);
    }
}

} // namespace ucm

bool cuda_events_complete() noexcept
{
    return ucm::hooks_installed &&
           std::ranges::all_of(
               missing, [](const auto &why) { return why.load() == nullptr; });
}

std::string cuda_events_missing() noexcept
try {
    std::string result;
    for (const auto &why : missing) {
        if (const char *text = why.load()) {
            result.append(result.empty() ? "" : "; ").append(text);
        }
    }
    if (result.empty() && !ucm::hooks_installed) {
        result = "the hooks are not installed";
    }
    return result;
} catch (const std::bad_alloc &) {
    return "out of memory"; // short enough to need none
}

void cuda_events_on_incomplete(incomplete_handler handler, void *arg)
{
    subscriber_arg = arg;
    subscriber.store(handler);
    // A missing hook is noted before the handler is read, and here the handler
    // is set before that is read. So at least one of the two threads calls it.
    if (!cuda_events_complete()) {
        handler(cuda_events_missing().c_str(), arg);
    }
}

void cuda_events_subscribe(const cuda_handlers &to)
{
    given = to;
    handlers.store(&given);
}

bool cuda_events_saw_allocation(uintptr_t base) noexcept
{
    return ucm::ranges().look_up(base).serial != 0;
}

bool cuda_events_saw_own_allocation(uintptr_t base, bool of_pool) noexcept
{
    const ucm::memory_range range = ucm::ranges().look_up(base);
    return (range.serial != 0) && (range.is != ucm::state::owned) &&
           (of_pool || (range.owner == 0));
}

bool cuda_event_is_repeated(ucm_event_type_t type,
                            const ucm_event_t &event) noexcept
{
    return (type == UCM_EVENT_MEM_TYPE_ALLOC) && !ucm::this_thread.announcing &&
           (ucm::this_thread.newest ==
            reinterpret_cast<uint64_t>(event.mem_type.address));
}

bool cuda_event_is_of_old_memory() noexcept
{
    return ucm::this_thread.existing;
}

// As in UCX's CUDA module: mappings without access, which include the addresses
// that the driver has reserved, and mappings of its devices. `rest` is a line
// of /proc/self/maps behind the addresses.
static bool may_be_cuda(const char *rest)
{
    return (strncmp(rest, " ---", 4) == 0) ||
           (strstr(rest, " /dev/nvidia") != nullptr);
}

void cuda_events_announce_existing() noexcept
{
    ucm::this_thread.existing = true;
    ucm::each_mapping([](uint64_t begin, uint64_t end, const char *rest) {
        if (may_be_cuda(rest)) {
            ucm::announce_memory(begin, end - begin);
        }
    });
    ucm::this_thread.existing = false;
}

} // namespace ucx_ib_dmabuf
