// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/libraries.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <new>
#include <string>

#include <ucm/api/ucm.h>

extern "C" {
#include <ucm/event/event.h>
}

namespace ucx_ib_dmabuf {
namespace {

// The versions of CUDA that brought new variants of entry points. Asking for
// more than the driver has is answered with an error, and skipped. Those before
// 3.2 take 32-bit pointers.
constexpr int VERSIONS[] = {3020,  4000,  4010,  6000,  6050,  7000,
                            8000,  9000,  10000, 10020, 11000, 11020,
                            11030, 11040, 11070, 12000, 12030, 12040,
                            12050, 12080, 13000, 13010};

void add(Addresses &addresses, void *address)
{
    if ((address != nullptr) && (std::find(addresses.begin(), addresses.end(),
                                           address) == addresses.end())) {
        addresses.push_back(address);
    }
}

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return (slash == nullptr) ? path : slash + 1;
}

void *open_loaded(const char *path)
{
    return dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// Where the library or program that an address lies in starts.
const void *object_of(const void *address)
{
    Dl_info info;
    return ((address != nullptr) && (dladdr(address, &info) != 0))
               ? info.dli_fbase
               : nullptr;
}

} // namespace

DriverLibrary::DriverLibrary()
{
    handle_ = open_loaded("libcuda.so.1");
    if (handle_ == nullptr) {
        handle_ = open_loaded("libcuda.so");
    }
    if (handle_ == nullptr) {
        return;
    }
    get_proc_       = symbol("cuGetProcAddress_v2");
    get_proc_is_v2_ = get_proc_ != nullptr;
    if (!get_proc_is_v2_) {
        get_proc_ = symbol("cuGetProcAddress");
    }
}

void *DriverLibrary::symbol(const char *name) const
{
    return dlsym(handle_, name);
}

void *DriverLibrary::ask(const char *entry, int version, Streams streams) const
{
    using GetProc    = int (*)(const char *, void **, int, uint64_t);
    using GetProcV2  = int (*)(const char *, void **, int, uint64_t, int *);
    const auto flags = uint64_t(streams);
    void *address    = nullptr;
    int found        = 0;

    const int result =
        get_proc_is_v2_ ? reinterpret_cast<GetProcV2>(get_proc_)(
                              entry, &address, version, flags, &found)
                        : reinterpret_cast<GetProc>(get_proc_)(entry, &address,
                                                               version, flags);
    return (result == CUDA_OK) ? address : nullptr;
}

Addresses DriverLibrary::addresses(const HookedFunction &function) const
{
    Addresses result;

    add(result, symbol(function.symbol));
    if ((get_proc_ != nullptr) && (function.entry != nullptr)) {
        for (const int version : VERSIONS) {
            add(result, ask(function.entry, version, function.streams));
        }
    }
    return result;
}

std::vector<void *> runtime_libraries()
{
    std::vector<std::string> paths;
    const auto add_runtime = [](dl_phdr_info *info, size_t, void *arg) {
        try {
            if (strncmp(base_name(info->dlpi_name), "libcudart", 9) == 0) {
                static_cast<std::vector<std::string> *>(arg)->push_back(
                    info->dlpi_name);
            }
            return 0;
        } catch (const std::bad_alloc &) {
            return 1;
        }
    };
    if (dl_iterate_phdr(add_runtime, &paths) != 0) {
        throw std::bad_alloc();
    }

    std::vector<void *> handles{RTLD_DEFAULT};
    for (const std::string &path : paths) {
        if (void *handle = open_loaded(path.c_str())) {
            handles.push_back(handle);
        }
    }
    return handles;
}

Addresses runtime_addresses(const std::vector<void *> &libraries,
                            const char *symbol)
{
    Addresses result;
    for (void *library : libraries) {
        add(result, dlsym(library, symbol));
    }
    return result;
}

uint64_t libraries_loaded()
{
    uint64_t count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *arg) {
            *static_cast<uint64_t *>(arg) = info->dlpi_adds;
            return 1; // every object says the same
        },
        &count);
    return count;
}

bool is_in_our_ucm(const void *address)
{
    const void *object = object_of(address);
    if (object == nullptr) {
        return false;
    }
    bool found =
        (object ==
         object_of(reinterpret_cast<const void *>(&ucm_event_dispatch)));
    // UCM's modules are in its list, each in that of the UCM it belongs to.
    const ucs_list_link_t *end = &ucm_event_installer_list;
    for (const ucs_list_link_t *i = end->next; !found && (i != end);
         i                        = i->next) {
        const auto *module = ucs_container_of(i, ucm_event_installer_t, list);
        found              = (object ==
                 object_of(reinterpret_cast<const void *>(module->install)));
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

} // namespace ucx_ib_dmabuf
