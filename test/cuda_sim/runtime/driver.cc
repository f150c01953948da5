// SPDX-License-Identifier: BSD-3-Clause
#include "runtime.h"

#include <atomic>
#include <dlfcn.h>
#include <utility>

namespace ucx_ib_dmabuf::sim {
namespace {

thread_local int chosen_device      = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<bool> retained[64];

using GetProcAddress = CUresult (*)(const char *, void **, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult *);

Driver load()
{
    Driver d;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *get     = library ? dlsym(library, "cuGetProcAddress_v2") : nullptr;
    if (!get) {
        d.error = cudaErrorInsufficientDriver;
        return d;
    }
    auto look_up = reinterpret_cast<GetProcAddress>(get);
    bool all     = true;
#define SIM_LOOK_UP(_name, ...)                                                \
    {                                                                          \
        void *found = nullptr;                                                 \
        look_up(#_name, &found, CUDA_VERSION, 0, nullptr);                     \
        d.p_##_name = reinterpret_cast<decltype(d.p_##_name)>(found);          \
        all         = all && found;                                            \
    }
    SIM_DRIVER_CALLS(SIM_LOOK_UP)
#undef SIM_LOOK_UP
    if (!all)
        d.error = cudaErrorInsufficientDriver;
    return d;
}

cudaError_t make_current(const Driver &d)
{
    CUcontext context = nullptr;
    CUresult result   = d.p_cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS || context)
        return cudaError_t(result);
    return use_device(d, chosen_device);
}

} // namespace

const Driver &driver()
{
    static const Driver &loaded = *new Driver(load());
    return loaded;
}

cudaError_t use_device(const Driver &d, int device)
{
    CUcontext context;
    CUresult result = d.p_cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS)
        return cudaError_t(result);
    // A process needs only one reference.
    if (retained[device].exchange(true))
        d.p_cuDevicePrimaryCtxRelease(device);
    chosen_device = device;
    return cudaError_t(d.p_cuCtxSetCurrent(context));
}

void device_was_reset(int device)
{
    const Driver &d = driver();
    if (retained[device].exchange(false))
        d.p_cuDevicePrimaryCtxRelease(device);
    d.p_cuCtxSetCurrent(nullptr);
}

cudaError_t begin_without_context(const Driver **out)
{
    const Driver &d = driver();
    *out            = &d;
    static std::atomic<bool> initialized{false};
    if (d.error != cudaSuccess || initialized)
        return d.error;
    CUresult result = d.p_cuInit(0);
    initialized     = result == CUDA_SUCCESS;
    return cudaError_t(result);
}

cudaError_t begin(const Driver **out)
{
    cudaError_t error = begin_without_context(out);
    return error == cudaSuccess ? make_current(**out) : error;
}

int current_device(const Driver &d)
{
    CUdevice device;
    return d.p_cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : chosen_device;
}

cudaError_t finish(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t finish(CUresult result)
{
    return finish(cudaError_t(result));
}

cudaError_t take_last_error()
{
    return std::exchange(last_error, cudaSuccess);
}

} // namespace ucx_ib_dmabuf::sim
