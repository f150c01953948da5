// SPDX-License-Identifier: BSD-3-Clause
#include "libraries.h"
#include "cuda_api.h"
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf::ucm {
namespace {

// Variants of later CUDA versions are unknown: their arguments may differ.
constexpr int newest_known = 13040;

void add(addresses &all, void *address)
{
    if ((address != nullptr) &&
        (std::find(all.begin(), all.end(), address) == all.end())) {
        all.push_back(address);
    }
}

// Removes a suffix from a name. Returns whether the name had it.
bool take_off(std::string &name, const char *suffix)
{
    const bool ends = name.ends_with(suffix);
    if (ends) {
        name.resize(name.size() - strlen(suffix));
    }
    return ends;
}

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

// Returns the start of the library or program that contains an address.
template <class Pointer>
const void *object_of(Pointer address)
{
    Dl_info info;
    return ((address != nullptr) &&
            (dladdr(reinterpret_cast<const void *>(address), &info) != 0))
               ? info.dli_fbase
               : nullptr;
}

} // namespace

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
void *driver_library::ask(const char *entry, int version, uint64_t flags) const
{
    using first   = int(const char *, void **, int, uint64_t);
    using second  = int(const char *, void **, int, uint64_t, int *);
    void *address = nullptr;
    int result    = CUDA_ERROR_NOT_FOUND, found;

    if (void *v2 = symbol("cuGetProcAddress_v2")) {
        result = reinterpret_cast<second *>(v2)(entry, &address, version, flags,
                                                &found);
    } else if (void *v1 = symbol("cuGetProcAddress")) {
        result = reinterpret_cast<first *>(v1)(entry, &address, version, flags);
    }
    return (result == cuda_ok) ? address : nullptr;
}

addresses driver_library::find(const hooked_function &function,
                               void **newest) const
{
    addresses result;
    std::string entry = function.symbol;
    const auto flags  = take_off(entry, "_ptsz")
                            ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                            : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    take_off(entry, "_v2");
    take_off(entry, "_v3");

    void *const named = symbol(function.symbol);
    add(result, named);
    *newest = nullptr;
    if (function.since <= version_) {
        *newest = ask(entry.c_str(), version_, flags);
        if (*newest != named) { // an older variant, or at another address
            add(result, ask(entry.c_str(), function.since, flags));
        }
        if (version_ <= newest_known) {
            add(result, *newest);
        }
    }
    return result;
}

std::vector<void *> runtime_libraries()
{
    std::vector<void *> handles{RTLD_DEFAULT};
    for (const std::string &path : library::all()) {
        void *handle = (path.compare(path.rfind('/') + 1, 9, "libcudart") == 0)
                           ? open_loaded(path.c_str())
                           : nullptr;
        if (handle != nullptr) {
            handles.push_back(handle);
        }
    }
    return handles;
}

addresses find_in(const std::vector<void *> &libraries,
                  const hooked_function &function)
{
    addresses result;
    for (void *library : libraries) {
        add(result, dlsym(library, function.symbol));
    }
    return result;
}

bool is_in_our_ucm(const void *address)
{
    const ucm_functions &ours = our_ucm();
    const void *object        = object_of(address);
    bool found =
        (object != nullptr) && (object == object_of(ours.event_dispatch));
    // Each UCM lists its own modules.
    const ucs_list_link_t *end = ours.event_installer_list;
    for (const ucs_list_link_t *i                       = end->next;
         (object != nullptr) && !found && (i != end); i = i->next) {
        const auto *module = reinterpret_cast<const ucm_event_installer_t *>(
            reinterpret_cast<const char *>(i) -
            offsetof(ucm_event_installer_t, list));
        found = object == object_of(module->install);
    }
    return found;
}

void pin_this_library()
{
    Dl_info info;
    if (dladdr(reinterpret_cast<void *>(&pin_this_library), &info) != 0) {
        open_loaded(info.dli_fname);
    }
}

} // namespace ucx_ib_dmabuf::ucm
