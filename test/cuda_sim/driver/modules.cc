// SPDX-License-Identifier: BSD-3-Clause
//
// Variables of modules. An image is PTX, of which only declarations of
// variables are read: "NAME[BYTES]". No library can be loaded.
#include "calls.h"
#include "context.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace ucx_ib_dmabuf::sim {
namespace {

struct Image {
    std::string text;
    CUcontext context;
    std::map<std::string, std::pair<CUdeviceptr, uint64_t>> variables; // id
};

// Guarded by the lock of Memory.
std::map<CUmodule, Image> &images()
{
    static auto &all = *new std::map<CUmodule, Image>;
    return all;
}

CUresult load(CUmodule *out, const void *text)
{
    static uintptr_t last;
    std::lock_guard guard(memory().lock);
    if (!out || !text)
        return CUDA_ERROR_INVALID_VALUE;
    *out           = reinterpret_cast<CUmodule>(++last);
    images()[*out] = {static_cast<const char *>(text), current_context(), {}};
    return CUDA_SUCCESS;
}

Allocation *find(const std::pair<CUdeviceptr, uint64_t> &variable)
{
    Allocation *found = memory().find(variable.first);
    return found && found->id == variable.second ? found : nullptr;
}

CUresult unload(CUmodule handle)
{
    std::lock_guard guard(memory().lock);
    auto one = images().find(handle);
    if (one == images().end())
        return CUDA_ERROR_INVALID_HANDLE;
    for (auto &[name, variable] : one->second.variables) {
        if (Allocation *found = find(variable))
            memory().free(*found);
    }
    images().erase(one);
    return CUDA_SUCCESS;
}

CUresult get_global(CUdeviceptr *out, size_t *size, CUmodule handle,
                    const char *name)
{
    std::lock_guard guard(memory().lock);
    auto one = images().find(handle);
    if (one == images().end() || !name)
        return CUDA_ERROR_INVALID_HANDLE;
    Image &image      = one->second;
    CUcontext context = image.context;
    const size_t at   = image.text.find(std::string(" ") + name + "[");
    if (at == std::string::npos || !context->alive)
        return CUDA_ERROR_NOT_FOUND;
    Allocation *found = find(image.variables[name]);
    if (!found) {
        found = memory().allocate(
            Kind::module, context->device,
            strtoull(&image.text[at + strlen(name) + 2], nullptr, 0), context);
        if (!found)
            return CUDA_ERROR_OUT_OF_MEMORY;
        image.variables[name] = {found->base, found->id};
    }
    if (out)
        *out = found->base;
    if (size)
        *size = found->size;
    return CUDA_SUCCESS;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY_IS(context, cuModuleLoadData, load(out, text), CUmodule *out,
             const void *text)
SIM_ENTRY_IS(driver, cuModuleUnload, unload(module), CUmodule module)
SIM_ENTRY_IS(context, cuModuleGetGlobal_v2, get_global(out, size, module, name),
             CUdeviceptr *out, size_t *size, CUmodule module, const char *name)
SIM_ENTRY_IS(driver, cuLibraryUnload, CUDA_ERROR_INVALID_HANDLE, CUlibrary)
SIM_ENTRY_IS(context, cuLibraryGetGlobal, CUDA_ERROR_INVALID_HANDLE,
             CUdeviceptr *, size_t *, CUlibrary, const char *)
