// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "machine.h"

#include <cstring>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <string_view>

namespace ucx_ib_dmabuf::sim {
namespace {

// The suffix that a plain name stands for, from a CUDA version on, newest
// first. Before the oldest row a name stands for the function without a suffix,
// if there was one. Other names stand for their _v2, if there is one, from
// CUDA 3.2 on.
struct Version {
    const char *name;
    int since;
    const char *suffix;
};
constexpr Version versions[] = {
    {"cuCtxCreate", 12050, "_v4"},
    {"cuCtxCreate", 11040, "_v3"},
    {"cuCtxCreate", 3020, "_v2"},
    {"cuCtxDestroy", 4000, "_v2"},
    {"cuCtxPopCurrent", 4000, "_v2"},
    {"cuCtxPushCurrent", 4000, "_v2"},
    {"cuDeviceGetUuid", 11040, "_v2"},
    {"cuDevicePrimaryCtxRelease", 11000, "_v2"},
    {"cuDevicePrimaryCtxReset", 11000, "_v2"},
    {"cuGetProcAddress", 12000, "_v2"},
    {"cuGraphAddNode", 13040, "_v3"},
    {"cuGraphAddNode", 12030, "_v2"},
    {"cuIpcOpenMemHandle", 11000, "_v2"},
    {"cuMemHostRegister", 6050, "_v2"},
    {"cuMemcpyBatchAsync", 13000, "_v2"},
    {"cuStreamBeginCapture", 10010, "_v2"},
    {"cuMemGetHandleForAddressRange", 11070, ""},
    {"cuMemAllocAsync", 11020, ""},
    {"cuMemAllocFromPoolAsync", 11020, ""},
    {"cuMemFreeAsync", 11020, ""},
    {"cuMemRetainAllocationHandle", 11000, ""},
};
constexpr int first_v2 = 3020;

int anchor;

// Looks a name up in this library, also if it was opened RTLD_LOCAL.
void *own_symbol(const std::string &name)
{
    static void *self = [] {
        Dl_info info;
        return dladdr(&anchor, &info)
                   ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                   : nullptr;
    }();
    return self ? dlsym(self, name.c_str()) : nullptr;
}

// Returns the symbol of a name; nothing if the version is too old for it.
std::optional<std::string> versioned(const std::string &name, int cuda_version)
{
    const Version *oldest = nullptr;
    for (const Version &version : versions) {
        if (name != version.name)
            continue;
        if (cuda_version >= version.since)
            return name + version.suffix;
        oldest = &version;
    }
    if (oldest)
        return *oldest->suffix && own_symbol(name) ? std::optional(name)
                                                   : std::nullopt;
    const std::string second = name + "_v2";
    return cuda_version >= first_v2 && own_symbol(second) ? second : name;
}

bool has_suffix(std::string_view name)
{
    return name.ends_with("_ptsz") || name.ends_with("_ptds") ||
           (name.size() > 3 && name[name.size() - 3] == '_' &&
            name[name.size() - 2] == 'v');
}

// As a real driver does (docs/hardware.txt): a missing function is no error,
// but a version above the driver's is.
CUresult get(const char *name, void **out, int cuda_version, cuuint64_t flags,
             CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult unused;
    if (!status)
        status = &unused;
    if (!name || !out || flags > 2 ||
        cuda_version > int(settings().driver_version))
        return CUDA_ERROR_INVALID_VALUE;
    *out    = nullptr;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    // The real library lacks this library's own names, and names with a suffix
    // are unknown.
    if (strncmp(name, "cu", 2) || !strncmp(name, "cuda", 4) || has_suffix(name))
        return CUDA_SUCCESS;
    const auto full = versioned(name, cuda_version);
    if (!full) {
        *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        return CUDA_SUCCESS;
    }
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
        *out = own_symbol(*full + "_ptsz");
        if (!*out)
            *out = own_symbol(*full + "_ptds");
    }
    if (!*out)
        *out = own_symbol(*full);
    if (*out)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

#undef cuGetProcAddress
SIM_ENTRY(anytime, cuGetProcAddress, const char *name, void **out, int version,
          cuuint64_t flags)
{
    void *found = nullptr;
    const CUresult result =
        get(name, out ? &found : nullptr, version, flags, nullptr);
    if (result != CUDA_SUCCESS)
        return result;
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *out = found;
    return CUDA_SUCCESS;
}

SIM_ENTRY(anytime, cuGetProcAddress_v2, const char *name, void **out,
          int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    return get(name, out, version, flags, status);
}

// NVIDIA documents no table; cudart asks for some before cuInit.
SIM_ENTRY_IS(anytime, cuGetExportTable, CUDA_ERROR_INVALID_VALUE, const void **,
             const CUuuid *)
