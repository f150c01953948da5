// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/cuda_events.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string_view>

#include "ucm/code_patch.h"
#include "ucm/completeness.h"
#include "ucm/libraries.h"
#include "ucm/release_calls.h"

extern "C" {
#include <ucm/util/reloc.h>
}

namespace ucx_ib_dmabuf {
namespace {

class Installer {
public:
    ucs_status_t install() noexcept;

    bool complete() const noexcept { return installed_.load() && !has_gap(); }

    std::string missing() noexcept;

    void hook_new_runtimes() noexcept;

private:
    static bool mode(ucm_mmap_hook_mode_t which)
    {
        return (ucm_global_opts.cuda_hook_modes & (1 << which)) != 0;
    }

    ucs_status_t install_locked();
    std::string news();
    std::string all_missing() const;
    void resolve_driver_calls(const DriverLibrary &driver);
    void hook_driver(const DriverLibrary &driver);
    void hook_runtimes();
    void hook(const HookedFunction &function, const Addresses &addresses);
    const char *hook_address(const HookedFunction &function, void *address);
    const char *hook_by_reloc(const HookedFunction &function, void *address);
    const char *verify(const HookKind &kind, void *address, const void *hook);

    const HookKind::Slot *next_slot(const HookKind &kind)
    {
        return (*kind.used < kind.count) ? &kind.slots[*kind.used] : nullptr;
    }

    std::mutex lock_;
    bool driver_done_        = false;
    uint64_t libraries_seen_ = 0;
    bool ucx_frees_          = false; // UCX's own hooks see cuMemFree
    std::set<void *> hooked_;         // addresses that were dealt with
    std::set<const void *> by_reloc_; // functions whose symbol was
    // Owned by UCM after ucm_reloc_modify(), so never moved or destroyed.
    std::list<ucm_reloc_patch_t> reloc_patches_;
    std::map<std::string, std::string> missing_; // function, why
    size_t told_ = 0; // how many of those the subscriber knows
    std::atomic<bool> installed_{false};
};

// Never destroyed: hooks and UCM refer to it until the process ends.
Installer &installer() noexcept
{
    alignas(Installer) static unsigned char storage[sizeof(Installer)];
    static Installer *instance = new (storage) Installer;
    return *instance;
}

template <class Signature>
void resolve(std::atomic<Signature> &call, const DriverLibrary &driver,
             const char *name, const char *older = nullptr)
{
    void *symbol = driver.symbol(name);
    if ((symbol == nullptr) && (older != nullptr)) {
        symbol = driver.symbol(older);
    }
    call.store(reinterpret_cast<Signature>(symbol), std::memory_order_release);
}

void Installer::resolve_driver_calls(const DriverLibrary &driver)
{
    resolve(driver_calls.address_range, driver, "cuMemGetAddressRange_v2",
            "cuMemGetAddressRange");
    resolve(driver_calls.pointer_attribute, driver, "cuPointerGetAttribute");
    resolve(driver_calls.primary_state, driver, "cuDevicePrimaryCtxGetState");
    resolve(driver_calls.is_capturing, driver, "cuStreamIsCapturing");
    resolve(driver_calls.exchange_capture_mode, driver,
            "cuThreadExchangeStreamCaptureMode");
}

// Calls the function and sees whether the hook was reached. Our jump must be
// there before: the probe's arguments are harmless, but cudaDeviceReset() has
// none.
const char *Installer::verify(const HookKind &kind, void *address,
                              const void *hook)
{
    if (patched_target(address) != hook) {
        return "something else replaced the hook";
    }
    const RelaxedCapture relaxed;
    HookThread &thread = hook_thread;
    thread.seen        = nullptr;
    thread.probing     = true;
    kind.probe(address);
    thread.probing = false;
    return (thread.seen == hook) ? nullptr : "a call did not reach the hook";
}

const char *Installer::hook_address(const HookedFunction &function,
                                    void *address)
{
    if (is_in_our_ucm(patched_target(address))) {
        return nullptr; // UCX's own hook
    }
    const HookKind &kind       = function.kind();
    const HookKind::Slot *slot = next_slot(kind);
    if (slot == nullptr) {
        return "it has too many variants";
    }
    const char *error = patch_function(address, slot->hook, *slot->original);
    // Never another function's, once somebody may have come here through it.
    *kind.used += (slot->original->load() != nullptr);
    return (error != nullptr) ? error : verify(kind, address, slot->hook);
}

const char *Installer::hook_by_reloc(const HookedFunction &function,
                                     void *address)
{
    const HookKind &kind       = function.kind();
    const HookKind::Slot *slot = next_slot(kind);
    if (slot == nullptr) {
        return "it has too many variants";
    }
    slot->original->store(address, std::memory_order_release);
    ++*kind.used;

    ucm_reloc_patch_t &patch = reloc_patches_.emplace_back();
    patch.symbol             = function.symbol;
    patch.value              = slot->hook;
    return (ucm_reloc_modify(&patch) == UCS_OK)
               ? nullptr
               : "the relocation tables cannot be changed";
}

void Installer::hook(const HookedFunction &function, const Addresses &addresses)
{
    for (void *address : addresses) {
        if (!hooked_.insert(address).second) {
            continue;
        }
        const char *error = mode(UCM_MMAP_HOOK_BISTRO)
                                ? hook_address(function, address)
                                : "UCX_MEM_CUDA_HOOK_MODE does not allow to "
                                  "patch it";
        if (error == nullptr) {
            continue;
        }
        missing_.emplace(function.symbol, error);
        // Better than nothing: calls by name, though not by address.
        if (mode(UCM_MMAP_HOOK_RELOC) && by_reloc_.insert(&function).second) {
            hook_by_reloc(function, address);
        }
    }
}

void Installer::hook_driver(const DriverLibrary &driver)
{
    for (const HookedFunction &function : driver_functions()) {
        hook(function, driver.addresses(function));
    }
    void *free_device = driver.symbol("cuMemFree_v2");
    ucx_frees_ =
        (free_device != nullptr) && is_in_our_ucm(patched_target(free_device));
}

// Time and again: a runtime may have been loaded since the last time.
void Installer::hook_runtimes()
{
    const uint64_t loaded = libraries_loaded();
    if (loaded == libraries_seen_) {
        return;
    }
    const std::vector<void *> libraries = runtime_libraries();

    for (const HookedFunction &function : runtime_functions()) {
        // Where UCX hooks the driver's, its events are there already.
        const std::string_view symbol = function.symbol;
        if (!ucx_frees_ ||
            ((symbol != "cudaFree") && (symbol != "cudaFreeHost"))) {
            hook(function, runtime_addresses(libraries, function.symbol));
        }
    }
    libraries_seen_ = loaded;
}

ucs_status_t Installer::install_locked()
{
    const DriverLibrary driver;

    if (!driver.found()) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (!mode(UCM_MMAP_HOOK_BISTRO) && !mode(UCM_MMAP_HOOK_RELOC)) {
        missing_.emplace("all", "UCX_MEM_CUDA_HOOK_MODE allows no hooks");
        return UCS_OK;
    }
    if (!driver_done_) {
        pin_this_library();
        resolve_driver_calls(driver);
        follow_ucx_events(); // makes UCX install its hooks
        hook_driver(driver);
        driver_done_ = true;
    }
    hook_runtimes();
    return UCS_OK;
}

ucs_status_t Installer::install() noexcept
{
    try {
        std::unique_lock<std::mutex> guard(lock_);
        const ucs_status_t status = install_locked();
        const std::string why     = news();
        guard.unlock();
        if (!why.empty()) {
            note_gap(Gap::HOOKS, why.c_str());
        }
        if (status == UCS_OK) {
            installed_.store(true);
        }
        return status;
    } catch (const std::bad_alloc &) {
        note_gap(Gap::MEMORY);
        return UCS_ERR_NO_MEMORY;
    }
}

void Installer::hook_new_runtimes() noexcept
{
    try {
        // Whoever waits here may hold the dynamic loader's lock, which the
        // owner of ours may want.
        std::unique_lock<std::mutex> guard(lock_, std::try_to_lock);
        if (!guard.owns_lock()) {
            runtimes_may_be_new.store(true, std::memory_order_release);
            return;
        }
        if (!driver_done_) {
            return;
        }
        hook_runtimes();
        const std::string why = news();
        guard.unlock();
        if (!why.empty()) {
            note_gap(Gap::HOOKS, why.c_str());
        }
    } catch (const std::bad_alloc &) {
        note_gap(Gap::MEMORY);
    }
}

// What is missing, if that is more than the last time.
std::string Installer::news()
{
    std::string result;
    if (missing_.size() != told_) {
        result = all_missing();
        told_  = missing_.size();
    }
    return result;
}

std::string Installer::all_missing() const
{
    std::map<std::string, std::string> by_reason;
    std::string result = gap_reasons();

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

std::string Installer::missing() noexcept
{
    try {
        std::lock_guard<std::mutex> guard(lock_);
        std::string result = all_missing();
        if (result.empty() && !installed_.load()) {
            result = "the hooks are not installed";
        }
        return result;
    } catch (const std::bad_alloc &) {
        return "out of memory"; // short enough to need none
    }
}

} // namespace

void cuda_events_refresh() noexcept
{
    if (runtimes_may_be_new.load(std::memory_order_relaxed) &&
        runtimes_may_be_new.exchange(false, std::memory_order_acq_rel)) {
        installer().hook_new_runtimes();
    }
}

ucs_status_t cuda_events_install() noexcept
{
    return installer().install();
}

bool cuda_events_complete() noexcept
{
    return installer().complete();
}

std::string cuda_events_missing() noexcept
{
    return installer().missing();
}

} // namespace ucx_ib_dmabuf
