// SPDX-License-Identifier: BSD-3-Clause
#include "driver_library.h"
#include "cuda_api.h"
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace ucx_ib_dmabuf::ucm {
namespace {

// Variants of later CUDA versions are unknown: their arguments may differ.
constexpr int newest_known_cuda = 13040;

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
    return (result == CUDA_SUCCESS) ? address : nullptr;
}

std::array<void *, 3> driver_library::find(const hooked_function &function,
                                           void **newest) const
{
    std::string entry = function.symbol;
    const auto flags  = take_off(entry, "_ptsz")
                            ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                            : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    take_off(entry, "_v2");
    take_off(entry, "_v3");

    void *const named = symbol(function.symbol);
    void *introduced  = nullptr;
    *newest           = nullptr;
    if (function.since <= version_) {
        *newest = ask(entry.c_str(), version_, flags);
        if (*newest != named) { // an older variant, or at another address
            introduced = ask(entry.c_str(), function.since, flags);
        }
    }
    return {named, introduced,
            (version_ <= newest_known_cuda) ? *newest : nullptr};
}

} // namespace ucx_ib_dmabuf::ucm
