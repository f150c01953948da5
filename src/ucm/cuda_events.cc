// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_events.h"
#include "code_patch.h"
#include "code_write.h"
#include "libraries.h"
#include "watched.h"
#include <cstring>
#include <map>
#include <set>
#include <uct/ib_dmabuf/ucx/library.h>
#include <uct/ib_dmabuf/ucx/start_lock.h>

namespace ucx_ib_dmabuf {
namespace ucm {
namespace {

std::atomic<unsigned> gaps{0};

// Set once: the argument before the handler.
std::atomic<incomplete_handler> subscriber{nullptr};
void *subscriber_arg;

const char *usual_reason(gap which)
{
    return (which == gap::graphs)
               ? "graphs allocate memory, and free it while they run"
               : "host memory ran out while CUDA memory was noted";
}

class installer {
public:
    ucs_status_t install() noexcept;
    void hook_new_runtimes() noexcept;
    bool complete() const noexcept { return installed_ && (gaps == 0); }
    std::string missing() noexcept;

private:
    ucs_status_t install_locked();
    void tell_news(std::unique_lock<start_lock> &guard);
    std::string all_missing() const;
    void hook_driver(const driver_library &library);
    void hook_runtimes();
    void hook(const hooked_function &function, const addresses &found);
    static const char *hook_address(const hooked_function &function,
                                    void *address);
    void hook_by_reloc(const hooked_function &function, void *address);
    void look_again();

    start_lock lock_;
    bool driver_done_        = false;
    uint64_t libraries_seen_ = 0;
    bool needs_runtimes_     = false; // a hook of the driver is missing
    std::set<void *> hooked_;         // addresses that were handled
    // UCM owns these after ucm_reloc_modify(): never move or destroy them.
    std::map<const hooked_function *, ucm_reloc_patch_t> reloc_patches_;
    std::map<std::string, std::string> missing_; // function, why
    size_t told_ = 0; // how many of those were reported
    std::atomic<bool> installed_{false};
};

void resolve_driver_calls(const driver_library &library)
{
    const auto resolve = [&](auto &call, const char *name) {
        using function = decltype(call.load());
        if (void *symbol = library.symbol(name)) {
            call.store(reinterpret_cast<function>(symbol));
        }
    };
    resolve(driver.address_range, "cuMemGetAddressRange");
    resolve(driver.address_range, "cuMemGetAddressRange_v2"); // if it exists
    resolve(driver.pointer_attribute, "cuPointerGetAttribute");
    resolve(driver.primary_state, "cuDevicePrimaryCtxGetState");
    resolve(driver.is_capturing, "cuStreamIsCapturing");
    resolve(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
}

// A function to test patching with. A call of a CUDA function may release
// memory if it is not hooked, and tools report calls that fail.
__attribute__((noinline, aligned(16))) int trial(int *called)
{
    return *called = 1;
}

int trial_hook(int *called)
{
    return *called = 2;
}

// Whether patches of code that has already run take effect. They do not in
// valgrind, which runs a translation.
bool patches_are_seen()
{
#if defined(__x86_64__)
    int (*volatile call)(int *) = trial;
    uint8_t code[5];
    int called;

    call(&called);
    memcpy(code, reinterpret_cast<void *>(call), sizeof(code));
    return (write_jump(reinterpret_cast<void *>(call), code,
                       reinterpret_cast<void *>(&trial_hook)) != nullptr) ||
           (call(&called) == 2);
#else
    return true; // nothing is patched here
#endif
}

const char *patch(hook_kind &kind, void *address)
{
    const hook_kind::slot *slot = kind.next_slot();
    if (slot == nullptr) {
        return "it has too many variants";
    }
    const char *error = patch_function(address, slot->hook, *slot->original);
    // Never reuse the slot once a thread may have called through it.
    kind.used += (slot->original->load() != nullptr);
    return ((error == nullptr) && (patched_target(address) != slot->hook))
               ? "something else replaced the hook"
               : error;
}

const char *installer::hook_address(const hooked_function &function,
                                    void *address)
{
    if (!our_ucm().hook_by_bistro) {
        return "UCX_MEM_CUDA_HOOK_MODE does not allow to patch it";
    }
    const auto kind = is_in_our_ucm(patched_target(address))
                          ? function.before_ucx
                          : function.kind;
    return (kind == nullptr) ? nullptr : patch(kind(), address);
}

void installer::hook_by_reloc(const hooked_function &function, void *address)
{
    hook_kind &kind             = function.kind();
    const hook_kind::slot *slot = kind.next_slot();
    if (slot != nullptr) {
        slot->original->store(address);
        ++kind.used;
        ucm_reloc_patch_t &patch = reloc_patches_[&function];
        patch.symbol             = function.symbol;
        patch.value              = slot->hook;
        our_ucm().reloc_modify(&patch);
    }
}

void installer::hook(const hooked_function &function, const addresses &found)
{
    for (void *address : found) {
        if (!hooked_.insert(address).second) {
            continue;
        }
        const char *error = hook_address(function, address);
        if (error == nullptr) {
            watch(function.symbol, address);
            continue;
        }
        if (!function.optional) {
            missing_.emplace(function.symbol, error);
        }
        // A relocation catches calls by name, though not by address.
        if (our_ucm().hook_by_relocation &&
            !reloc_patches_.contains(&function)) {
            hook_by_reloc(function, address);
        }
    }
}

void installer::hook_driver(const driver_library &library)
{
    for (const hooked_function &function : driver_functions()) {
        void *newest;
        hook(function, library.find(function, &newest));
        // Not hooked: its arguments may differ.
        if ((newest != nullptr) && !function.optional &&
            !hooked_.contains(newest)) {
            missing_.emplace(function.symbol, "the driver has a newer variant");
        }
    }
    needs_runtimes_ = !missing_.empty();
}

void installer::look_again()
{
    for (const watched_function &function : watched_functions()) {
        if (is_changed(function)) {
            missing_.emplace(function.symbol,
                             "something else replaced the hook");
        }
    }
}

// Called repeatedly, as a runtime may have been loaded since the last call.
// Acts only if a hook of the driver is missing, as runtimes release through the
// driver. Patching a runtime is a risk: threads may stand between the short
// instructions at the start of its functions.
void installer::hook_runtimes()
{
    const uint64_t loaded = library::count_loaded();
    if (!needs_runtimes_ || (loaded == libraries_seen_)) {
        return;
    }
    const std::vector<void *> libraries = runtime_libraries();

    for (const hooked_function &function : runtime_functions()) {
        hook(function, find_in(libraries, function));
    }
    libraries_seen_ = loaded;
}

ucs_status_t installer::install_locked()
{
    const driver_library library;

    if (!library.found() || all_ucm().empty()) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (!our_ucm().hook_by_bistro && !our_ucm().hook_by_relocation) {
        missing_.emplace(
            "all", "UCX_MEM_CUDA_HOOK_MODE or UCX_MEM_EVENTS allows no hooks");
        return UCS_OK;
    }
    if (!driver_done_) {
        static const bool seen =
            !our_ucm().hook_by_bistro || patches_are_seen();
        if (!seen) {
            missing_.emplace("all", "this process does not see that code is "
                                    "patched (valgrind: --smc-check=all)");
        }
        pin_this_library();
        resolve_driver_calls(library);
        follow_ucx_events(); // makes UCX install its hooks
        hook_driver(library);
        driver_done_ = true;
    }
    hook_runtimes();
    return UCS_OK;
}

ucs_status_t installer::install() noexcept
try {
    if (!lock_.acquire()) {
        return UCS_ERR_UNSUPPORTED;
    }
    std::unique_lock guard(lock_, std::adopt_lock);
    const ucs_status_t status = install_locked();
    tell_news(guard);
    if (status == UCS_OK) {
        installed_.store(true);
    }
    return status;
} catch (const std::bad_alloc &) {
    note_gap(gap::memory);
    return UCS_ERR_NO_MEMORY;
}

void installer::hook_new_runtimes() noexcept
try {
    // Do not wait: this thread may hold the dynamic loader's lock, which the
    // owner of our lock may want.
    std::unique_lock guard(lock_, std::try_to_lock);
    if (!guard.owns_lock()) {
        runtimes_may_be_new.store(true);
    } else if (driver_done_) {
        look_again();
        hook_runtimes();
        tell_news(guard);
    }
} catch (const std::bad_alloc &) {
    note_gap(gap::memory);
}

// Reports, without the lock, what is missing if that has grown.
void installer::tell_news(std::unique_lock<start_lock> &guard)
{
    if (missing_.size() != told_) {
        const std::string why = all_missing();
        told_                 = missing_.size();
        guard.unlock();
        note_gap(gap::hooks, why.c_str());
    }
}

std::string installer::all_missing() const
{
    std::map<std::string, std::string> by_reason;
    std::string result;

    for (const gap which : {gap::graphs, gap::memory}) {
        if ((gaps & unsigned(which)) != 0) {
            result.append(result.empty() ? "" : "; ");
            result.append(usual_reason(which));
        }
    }
    for (const auto &[function, reason] : missing_) {
        std::string &functions = by_reason[reason];
        functions.append(functions.empty() ? "" : ", ").append(function);
    }
    for (const auto &[reason, functions] : by_reason) {
        result.append(result.empty() ? "" : "; ");
        result.append(functions).append(": ").append(reason);
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
    for (const watched_function &function : watched_functions()) {
        if (is_changed(function)) {
            runtimes_may_be_new.store(true);
        }
    }
}

void note_gap(gap which, const char *why) noexcept
{
    if ((gaps.fetch_or(unsigned(which)) & unsigned(which)) != 0) {
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
    // A gap is set before the handler is read, and here the handler before the
    // gaps are read. So at least one of the two threads calls the handler.
    if (!cuda_events_complete()) {
        handler(cuda_events_missing().c_str(), arg);
    }
}

const std::atomic<bool> &cuda_events_need_refresh() noexcept
{
    return ucm::runtimes_may_be_new;
}

void cuda_events_refresh() noexcept
{
    if (ucm::runtimes_may_be_new.load(std::memory_order_relaxed) &&
        ucm::runtimes_may_be_new.exchange(false)) {
        ucm::immortal<ucm::installer>().hook_new_runtimes();
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
    return ucm::is_announced(base);
}

std::string cuda_events_missing() noexcept
{
    return ucm::immortal<ucm::installer>().missing();
}

} // namespace ucx_ib_dmabuf
