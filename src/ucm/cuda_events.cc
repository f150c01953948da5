// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_events.h"
#include "announce.h"
#include "code_patch.h"
#include "driver_library.h"
#include "maps.h"
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf {
namespace ucm {
namespace {

constexpr char overwritten[] = "something else replaced the hook";

std::atomic<unsigned> missing_hooks{0};

bool is_missing(missing_hook which)
{
    return (missing_hooks.load() & unsigned(which)) != 0;
}

// Set once: the argument before the handler.
std::atomic<incomplete_handler> subscriber{nullptr};
void *subscriber_arg;

const char *usual_reason(missing_hook which)
{
    return (which == missing_hook::graph)
               ? "graphs allocate memory, and free it while they run"
               : "host memory ran out while CUDA memory was noted";
}

// A function that begins with a jump to a hook, ours or UCX's. A uprobe or
// another tool may overwrite the jump. Events look for that without a lock.
struct watched_function {
    const char *symbol;
    const void *code;
};
std::array<watched_function, 128> watched;
std::atomic<size_t> watched_count;

class installer {
public:
    ucs_status_t install() noexcept;
    bool complete() const noexcept
    {
        return installed_ && (missing_hooks == 0);
    }
    std::string missing() noexcept;
    void note_overwritten(const char *symbol) noexcept;

private:
    ucs_status_t install_locked();
    void report_once(std::unique_lock<start_lock> &guard);
    std::string all_missing() const;
    void hook_driver(const driver_library &library);
    void hook(const hooked_function &function, void *address);

    start_lock lock_;
    library self_;            // that has this code: it is never unloaded
    std::set<void *> hooked_; // addresses that were handled
    std::map<std::string, std::set<std::string>> missing_; // why, functions
    std::atomic<bool> installed_{false};
};

// Whether an address lies in the UCM that sends our events, or in one of its
// modules: a hook there announces to our subscribers. Any other loaded UCX has
// its own UCM and subscribers.
bool is_in_our_ucm(const void *address)
{
    if (address == nullptr) {
        return false;
    }
    const library holder = library::around(address);
    const auto in_holder = [&](auto *function) {
        return holder.has(reinterpret_cast<const void *>(function));
    };
    bool found = in_holder(our_ucm().event_dispatch);
    // Each UCM lists its own modules.
    const ucs_list_link_t *end = our_ucm().event_installer_list;
    for (const ucs_list_link_t *i = end->next; !found && (i != end);
         i                        = i->next) {
        found = in_holder(reinterpret_cast<const ucm_event_installer_t *>(
                              reinterpret_cast<const char *>(i) -
                              offsetof(ucm_event_installer_t, list))
                              ->install);
    }
    return found;
}

// Returns nullptr, or why the function cannot be hooked.
const char *hook_address(const hooked_function &function, void *address)
{
    if (!function.allocates && is_in_our_ucm(patched_target(address))) {
        return nullptr; // UCX's hook suffices
    }
    hook_kind &kind             = function.kind();
    const hook_kind::slot *slot = kind.next_slot();
    if (slot == nullptr) {
        return "it has too many variants";
    }
    const char *error = patch_function(address, slot->hook, *slot->original);
    // Never reuse the slot once a thread may have called through it.
    kind.used += (slot->original->load() != nullptr);
    return ((error == nullptr) && (patched_target(address) != slot->hook))
               ? overwritten
               : error;
}

void watch(const char *symbol, const void *code)
{
    const size_t count = watched_count.load(std::memory_order_relaxed);

    if (begins_with_jump(code) && (count < watched.size())) {
        watched[count] = {symbol, code};
        watched_count.store(count + 1, std::memory_order_release);
    }
}

void installer::hook(const hooked_function &function, void *address)
{
    if ((address == nullptr) || !hooked_.insert(address).second) {
        return;
    }
    const char *error = hook_address(function, address);
    if (error == nullptr) {
        watch(function.symbol, address);
    } else if (!function.optional) {
        missing_[error].emplace(function.symbol);
    }
}

void installer::hook_driver(const driver_library &library)
{
    for (const hooked_function &function : hooked_functions()) {
        void *newest;
        for (void *address : library.find(function, &newest)) {
            hook(function, address);
        }
        // Not hooked: its arguments may differ.
        if ((newest != nullptr) && !function.optional &&
            !hooked_.contains(newest)) {
            missing_["the driver has a newer variant"].emplace(function.symbol);
        }
    }
}

ucs_status_t installer::install_locked()
{
    const driver_library library;

    if (!library.found() || all_ucm().empty()) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (installed_) {
        return UCS_OK;
    }
    if (!our_ucm().hook_by_bistro) {
        missing_["UCX_MEM_CUDA_HOOK_MODE or UCX_MEM_EVENTS allows no hooks"]
            .emplace("all");
        return UCS_OK;
    }
    if (!patches_take_effect()) {
        missing_["this process does not see that code is patched (valgrind: "
                 "--smc-check=all)"]
            .emplace("all");
    }
    self_ = library::around(reinterpret_cast<void *>(&cuda_events_install));
    // Once, as hooks read the table.
    [[maybe_unused]] static const bool complete =
        driver.find([&](const char *name) { return library.symbol(name); });
    follow_ucx_events(); // makes UCX install its hooks
    hook_driver(library);
    note_primary_contexts();
    return UCS_OK;
}

ucs_status_t installer::install() noexcept
try {
    if (!lock_.acquire()) {
        return UCS_ERR_UNSUPPORTED;
    }
    std::unique_lock guard(lock_, std::adopt_lock);
    const ucs_status_t status = install_locked();
    report_once(guard);
    if (status == UCS_OK) {
        installed_.store(true);
    }
    return status;
} catch (const std::bad_alloc &) {
    note_missing(missing_hook::memory);
    return UCS_ERR_NO_MEMORY;
}

// An event calls this. It does not wait, as the owner of the lock may wait for
// this thread. The next event tries again.
void installer::note_overwritten(const char *symbol) noexcept
try {
    std::unique_lock guard(lock_, std::try_to_lock);
    if (guard.owns_lock()) {
        missing_[overwritten].emplace(symbol);
        report_once(guard);
    }
} catch (const std::bad_alloc &) {
    note_missing(missing_hook::memory);
}

// Reports the first missing hooks, without the lock.
void installer::report_once(std::unique_lock<start_lock> &guard)
{
    if (!missing_.empty() && !is_missing(missing_hook::function)) {
        const std::string why = all_missing();
        guard.unlock();
        note_missing(missing_hook::function, why.c_str());
    }
}

std::string installer::all_missing() const
{
    std::string result;

    for (const auto which : {missing_hook::graph, missing_hook::memory}) {
        if (is_missing(which)) {
            result.append(result.empty() ? "" : "; ");
            result.append(usual_reason(which));
        }
    }
    for (const auto &[reason, functions] : missing_) {
        const char *separator = result.empty() ? "" : "; ";
        for (const std::string &function : functions) {
            result.append(separator).append(function);
            separator = ", ";
        }
        result.append(": ").append(reason);
    }
    return result;
}

std::string installer::missing() noexcept
try {
    if (!lock_.acquire()) {
        return "not installed"; // like the next one, it needs no allocation
    }
    const std::lock_guard guard(lock_, std::adopt_lock);
    std::string result = all_missing();
    if (result.empty() && !installed_.load()) {
        result = "the hooks are not installed";
    }
    return result;
} catch (const std::bad_alloc &) {
    return "out of memory"; // short enough to need none
}

} // namespace

void check_hooks() noexcept
{
    const size_t count = is_missing(missing_hook::function)
                             ? 0 // reported
                             : watched_count.load(std::memory_order_acquire);

    for (const auto &[symbol, code] : std::span(watched).first(count)) {
        if (!begins_with_jump(code)) {
            immortal<installer>().note_overwritten(symbol);
        }
    }
}

void note_missing(missing_hook which, const char *why) noexcept
{
    if ((missing_hooks.fetch_or(unsigned(which)) & unsigned(which)) != 0) {
        return;
    }
    if (const incomplete_handler handler = subscriber.load()) {
        handler((why != nullptr) ? why : usual_reason(which), subscriber_arg);
    }
}

} // namespace ucm

void cuda_events_on_incomplete(incomplete_handler handler, void *arg)
{
    ucm::subscriber_arg = arg;
    ucm::subscriber.store(handler);
    // A missing hook is noted before the handler is read, and here the handler
    // is set before that is read. So at least one of the two threads calls it.
    if (!cuda_events_complete()) {
        handler(cuda_events_missing().c_str(), arg);
    }
}

ucs_status_t cuda_events_install() noexcept
{
    return ucm::immortal<ucm::installer>().install();
}

bool cuda_events_complete() noexcept
{
    return ucm::immortal<ucm::installer>().complete();
}

bool cuda_events_saw_allocation(uintptr_t base) noexcept
{
    return ucm::ranges().look_up(base).serial != 0;
}

std::string cuda_events_missing() noexcept
{
    return ucm::immortal<ucm::installer>().missing();
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
