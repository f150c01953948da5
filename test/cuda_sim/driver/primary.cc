// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "context.h"

namespace ucx_ib_dmabuf::sim {
namespace {

CUresult release(CUdevice device)
{
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard guard(memory().lock);
    CUcontext context = contexts().primary[size_t(device)];
    if (!context->retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->retained == 0)
        release_resources(context);
    return CUDA_SUCCESS;
}

// References are kept; the next retain revives the context.
CUresult reset(CUdevice device)
{
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard guard(memory().lock);
    release_resources(contexts().primary[size_t(device)]);
    clear_pools(device);
    return CUDA_SUCCESS;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(cuDevicePrimaryCtxRetain, CUcontext *out, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard guard(memory().lock);
    CUcontext context = contexts().primary[size_t(device)];
    if (context->retained++ == 0 || !context->alive) {
        context->id    = ++contexts().last_id;
        context->alive = true;
    }
    *out = context;
    return CUDA_SUCCESS;
}

// The real library keeps these names for old programs.
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
SIM_ENTRY_BOTH(cuDevicePrimaryCtxRelease, _v2, release(device), CUdevice device)
SIM_ENTRY_BOTH(cuDevicePrimaryCtxReset, _v2, reset(device), CUdevice device)

SIM_ENTRY(cuDevicePrimaryCtxGetState, CUdevice device, unsigned *flags,
          int *active)
{
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    CUcontext context = contexts().primary[size_t(device)];
    *flags            = context->flags;
    *active           = context->alive;
    return CUDA_SUCCESS;
}
