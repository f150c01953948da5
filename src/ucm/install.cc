// SPDX-License-Identifier: BSD-3-Clause
#include "announce.h"
#include "code_patch.h"
#include "cuda_api.h"
#include "cuda_events.h"
#include "hook_table.h"
#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <dlfcn.h>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <string>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/ucx/library.h>
#include <utility>
#include <vector>

// Finds each hooked function at all of its addresses, and patches it.
namespace ucx_ib_dmabuf {
namespace ucm {
namespace {

// Variants of later CUDA versions are unknown: their arguments may differ.
constexpr int newest_known_cuda = 13040;

void *open_loaded(const char *path)
{
    return dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

using look_up = void *(void *, const char *);

// Returns libc's dlsym(). Preloads in front of the driver (HAMi's) replace
// dlsym(), and return their own functions for the driver's. Only hooks in the
// driver's own functions see calls that bypass the preload.
look_up *find_dlsym()
{
    for (const char *library : {"libc.so.6", "libdl.so.2"}) {
        for (const char *version : {"GLIBC_2.2.5", "GLIBC_2.17"}) {
            void *handle = open_loaded(library);
            void *found  = (handle == nullptr)
                               ? nullptr
                               : dlvsym(handle, "dlsym", version);
            if (found != nullptr) {
                return reinterpret_cast<look_up *>(found);
            }
        }
    }
    return dlsym;
}

// libcuda, if this process has loaded it. It is never unloaded afterwards.
class driver_library {
public:
    driver_library();

    bool found() const { return handle_ != nullptr; }
    void *symbol(const char *name) const;

    // Returns a variant's addresses: from dlsym(), and from cuGetProcAddress
    // for the CUDA that introduced it and for this driver's CUDA (`newest`).
    // Omits `newest` if that CUDA is newer than all known variants. Addresses
    // that do not exist are nullptr; some may be equal. Each question is a call
    // of the driver: while dlsym() gives every newest address, older variants
    // and optional functions are only looked up by name.
    std::array<void *, 3> find(const hooked_function &function, void **newest);

private:
    void *ask(const std::string &entry, int version, uint64_t flags) const;

    void *handle_;
    int version_ = INT_MAX; // CUDA's, from cuDriverGetVersion
    // The last function asked for: its variants follow each other.
    std::string entry_;
    uint64_t flags_ = 0;
    void *newest_   = nullptr;
    bool by_name_   = true; // each newest address so far has its name
};

driver_library::driver_library() : handle_(open_loaded("libcuda.so.1"))
{
    if (handle_ == nullptr) {
        handle_ = open_loaded("libcuda.so");
    }
    if (void *get_version = found() ? symbol("cuDriverGetVersion") : nullptr) {
        reinterpret_cast<int (*)(int *)>(get_version)(&version_);
    }
}

void *driver_library::symbol(const char *name) const
{
    static look_up *const look_up_symbol = find_dlsym();
    return look_up_symbol(handle_, name);
}

// Returns nullptr if the driver lacks the function: cuGetProcAddress_v2 then
// succeeds with a null pointer, the old form fails.
void *driver_library::ask(const std::string &entry, int version,
                          uint64_t flags) const
{
    using first   = int(const char *, void **, int, uint64_t);
    using second  = int(const char *, void **, int, uint64_t, int *);
    void *address = nullptr;
    int result    = CUDA_ERROR_NOT_FOUND, found;

    if (void *v2 = symbol("cuGetProcAddress_v2")) {
        result = reinterpret_cast<second *>(v2)(entry.c_str(), &address,
                                                version, flags, &found);
    } else if (void *v1 = symbol("cuGetProcAddress")) {
        result = reinterpret_cast<first *>(v1)(entry.c_str(), &address, version,
                                               flags);
    }
    return (result == CUDA_SUCCESS) ? address : nullptr;
}

std::array<void *, 3> driver_library::find(const hooked_function &function,
                                           void **newest)
{
    // The name without suffixes: no function's own name has a '_'.
    const std::string symbol_name = function.symbol;
    const std::string entry = symbol_name.substr(0, symbol_name.find('_'));
    const auto flags        = symbol_name.ends_with("_ptsz")
                                  ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                  : CU_GET_PROC_ADDRESS_LEGACY_STREAM;

    void *const named = symbol(function.symbol);
    void *introduced  = nullptr;
    *newest           = nullptr;
    if (function.since <= version_) {
        if ((entry != entry_) || (flags != flags_)) {
            entry_   = entry;
            flags_   = flags;
            newest_  = (function.optional && by_name_)
                           ? named
                           : ask(entry, version_, flags);
            by_name_ = by_name_ && (newest_ == named);
        }
        *newest = newest_;
        if ((*newest != named) && !by_name_) {
            introduced = ask(entry, function.since, flags);
        }
    }
    return {named, introduced,
            (version_ <= newest_known_cuda) ? *newest : nullptr};
}

// Where the library or program around an address begins; nullptr if there is
// none.
const void *base_around(const void *address)
{
    Dl_info info;
    return (dladdr(address, &info) != 0) ? info.dli_fbase : nullptr;
}

// The UCM that sends our events, and its modules: a hook there announces to our
// subscribers. Any other loaded UCX has its own UCM and subscribers.
std::vector<const void *> find_our_ucm()
{
    std::vector<const void *> found;
    const auto add = [&](auto *function) {
        found.push_back(base_around(reinterpret_cast<const void *>(function)));
    };
    add(our_ucm().event_dispatch);
    // Each UCM lists its own modules.
    const ucs_list_link_t *end = our_ucm().event_installer_list;
    for (const ucs_list_link_t *i = end->next; i != end; i = i->next) {
        add(reinterpret_cast<const ucm_event_installer_t *>(
                reinterpret_cast<const char *>(i) -
                offsetof(ucm_event_installer_t, list))
                ->install);
    }
    return found;
}

constexpr char overwritten[] = "something else replaced the hook";

// Returns nullptr, or why the function cannot be hooked.
const char *hook_address(const hooked_function &function, void *address)
{
    hook_kind &kind = function.kind();
    if (kind.used == std::size(kind.slots)) {
        return "it has too many variants";
    }
    const hook_kind::slot &slot = kind.slots[kind.used];
    const char *error = patch_function(address, slot.hook, *slot.original);
    // Never reuse the slot once a thread may have called through it.
    kind.used += (slot.original->load() != nullptr);
    return ((error == nullptr) && (patched_target(address) != slot.hook))
               ? overwritten
               : error;
}

class installer {
public:
    ucs_status_t install();

private:
    void hook_driver(driver_library &library);
    void hook(const hooked_function &function, void *address);
    void watch(const hooked_function &function, const void *address);
    const char *all_unhooked();

    start_lock lock_;
    library self_; // that has this code: it is never unloaded
    std::vector<const void *> our_ucm_; // its libraries
    std::set<void *> hooked_;           // addresses that were handled
    std::map<std::string, std::set<std::string>> unhooked_; // why, functions
    std::list<std::string> texts_; // reasons that are or may be reported
};

void installer::watch(const hooked_function &function, const void *address)
{
    texts_.push_back(std::string(function.symbol) + ": " + overwritten);
    watch_patch(address, texts_.back().c_str());
}

void installer::hook(const hooked_function &function, void *address)
{
    const char *error = hook_address(function, address);
    if (error == nullptr) {
        watch(function, address);
    } else if (!function.optional) {
        unhooked_[error].emplace(function.symbol);
    }
}

void installer::hook_driver(driver_library &library)
{
    std::vector<std::pair<const hooked_function *, void *>> ours;
    std::vector<void *> addresses;

    for (const hooked_function &function : hooked_functions()) {
        void *newest;
        for (void *address : library.find(function, &newest)) {
            if ((address == nullptr) || !hooked_.insert(address).second) {
                continue;
            }
            const void *jumps_into = function.allocates
                                         ? nullptr
                                         : base_around(patched_target(address));
            if ((jumps_into != nullptr) &&
                (std::ranges::find(our_ucm_, jumps_into) != our_ucm_.end())) {
                watch(function, address); // UCX's hook suffices
            } else {
                ours.emplace_back(&function, address);
                addresses.push_back(address);
            }
        }
        // Not hooked: its arguments may differ.
        if ((newest != nullptr) && !function.optional &&
            !hooked_.contains(newest)) {
            unhooked_["the driver has a newer variant"].emplace(
                function.symbol);
        }
    }
    const writable_functions meanwhile(addresses);
    for (const auto &[function, address] : ours) {
        hook(*function, address);
    }
}

// Returns the functions without a hook and why, or nullptr if there are none.
const char *installer::all_unhooked()
{
    std::string text;
    for (const auto &[reason, functions] : unhooked_) {
        const char *separator = text.empty() ? "" : "; ";
        for (const std::string &function : functions) {
            text.append(separator).append(function);
            separator = ", ";
        }
        text.append(": ").append(reason);
    }
    return text.empty() ? nullptr : texts_.emplace_back(text).c_str();
}

ucs_status_t installer::install()
{
    if (!lock_.acquire()) {
        return UCS_ERR_UNSUPPORTED;
    }
    std::unique_lock guard(lock_, std::adopt_lock);
    driver_library library;
    if (!library.found() || all_ucm().empty()) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (hooks_installed) {
        return UCS_OK;
    }
    if (!our_ucm().hook_by_bistro) {
        unhooked_["UCX_MEM_CUDA_HOOK_MODE or UCX_MEM_EVENTS allows no hooks"] =
            {"all"};
    } else {
        if (!patches_take_effect()) {
            unhooked_["this process does not see that code is patched "
                      "(valgrind: --smc-check=all)"] = {"all"};
        }
        self_ = library::around(reinterpret_cast<void *>(&cuda_events_install));
        // Once, as hooks read the table.
        [[maybe_unused]] static const bool complete =
            driver.find([&](const char *name) { return library.symbol(name); });
        follow_ucx_events(); // makes UCX install its hooks
        our_ucm_ = find_our_ucm();
        hook_driver(library);
    }
    const char *why = all_unhooked();
    guard.unlock();
    if (why != nullptr) {
        note_missing(missing_hook::function, why);
    }
    hooks_installed = true;
    return UCS_OK;
}

} // namespace
} // namespace ucm

ucs_status_t cuda_events_install() noexcept
try {
    return ucm::immortal<ucm::installer>().install();
} catch (const std::bad_alloc &) {
    ucm::note_lack_of_memory();
    return UCS_ERR_NO_MEMORY;
}

} // namespace ucx_ib_dmabuf
