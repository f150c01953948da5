// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated libcudart: a thin layer over the process's libcuda.so.1. Like
// NVIDIA's, it calls the driver through pointers from cuGetProcAddress.
#include "../entry.h"

#include <atomic>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <utility>

// As the driver's SIM_ENTRY, without counting: the driver's calls are counted.
#define SIM_RUNTIME(_type, _name, ...)                                         \
    static _type body_##_name(__VA_ARGS__);                                    \
    extern "C" {                                                               \
    extern SIM_HIDDEN _type (*const sim_ptr_##_name)(__VA_ARGS__);             \
    __attribute__((used))                                                      \
    _type (*const sim_ptr_##_name)(__VA_ARGS__) = body_##_name;                \
    }                                                                          \
    SIM_TRAMPOLINE(_name)                                                      \
    static _type body_##_name(__VA_ARGS__)

// Calls the driver; the arguments are in brackets. The name is converted to
// text before cuda.h can add a version to it.
#define SIM_DRIVER(_call, _arguments) SIM_DRIVER_(#_call, _call, _arguments)
#define SIM_DRIVER_(_text, _call, _arguments)                                  \
    ([&] {                                                                     \
        static const auto entry =                                              \
            reinterpret_cast<decltype(&::_call)>(look_up(_text));              \
        return entry ? cudaError_t(entry _arguments)                           \
                     : cudaErrorInsufficientDriver;                            \
    }())

// A runtime call that is a driver call after _first, which is begin() or
// initialize(): the call, its arguments in brackets, then the parameters.
#define SIM_RUNTIME_FORWARD(_first, _name, _call, _arguments, ...)             \
    SIM_RUNTIME(cudaError_t, _name, __VA_ARGS__)                               \
    {                                                                          \
        const cudaError_t error = _first();                                    \
        return finish(error != cudaSuccess                                     \
                          ? error                                              \
                          : SIM_DRIVER_(#_call, _call, _arguments));           \
    }

// The same for a call that frees: given nullptr, it only makes a context.
#define SIM_RUNTIME_FREE(_name, _call, _arguments, ...)                        \
    SIM_RUNTIME(cudaError_t, _name, __VA_ARGS__)                               \
    {                                                                          \
        const cudaError_t error = begin();                                     \
        return finish(error != cudaSuccess || !address                         \
                          ? error                                              \
                          : SIM_DRIVER_(#_call, _call, _arguments));           \
    }

namespace {

thread_local int chosen_device      = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<bool> retained[64];

// Returns nullptr if there is no driver, or an older one.
void *look_up(const char *name)
{
    using get_proc_address =
        CUresult(const char *, void **, int, cuuint64_t, void *);
    static auto *const get = [] {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        return reinterpret_cast<get_proc_address *>(
            library ? dlsym(library, "cuGetProcAddress_v2") : nullptr);
    }();
    void *found = nullptr;
    if (get)
        get(name, &found, CUDA_VERSION, 0, nullptr);
    return found;
}

cudaError_t initialize()
{
    static std::atomic<bool> initialized{false};
    if (initialized)
        return cudaSuccess;
    const cudaError_t error = SIM_DRIVER(cuInit, (0));
    initialized             = error == cudaSuccess;
    return error;
}

cudaError_t use_device(int device)
{
    CUcontext context;
    const cudaError_t error =
        SIM_DRIVER(cuDevicePrimaryCtxRetain, (&context, device));
    if (error != cudaSuccess)
        return error;
    // A process needs only one reference.
    if (retained[device].exchange(true))
        SIM_DRIVER(cuDevicePrimaryCtxRelease, (device));
    chosen_device = device;
    return SIM_DRIVER(cuCtxSetCurrent, (context));
}

// Makes the primary context of the thread's device current, as the runtime does
// at the first call that needs one.
cudaError_t begin()
{
    CUcontext context = nullptr;
    cudaError_t error = initialize();
    if (error == cudaSuccess)
        error = SIM_DRIVER(cuCtxGetCurrent, (&context));
    return error != cudaSuccess || context ? error : use_device(chosen_device);
}

// Stores the error for cudaGetLastError.
cudaError_t finish(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

CUdeviceptr dev(const void *address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

CUdeviceptr *dev(void **out)
{
    return reinterpret_cast<CUdeviceptr *>(out);
}

} // namespace

SIM_RUNTIME(cudaError_t, cudaGetDeviceCount, int *count)
{
    *count            = 0;
    cudaError_t error = initialize();
    if (error == cudaSuccess)
        error = SIM_DRIVER(cuDeviceGetCount, (count));
    return finish(error);
}

SIM_RUNTIME(cudaError_t, cudaSetDevice, int device)
{
    int count         = 0;
    cudaError_t error = initialize();
    if (error == cudaSuccess)
        error = SIM_DRIVER(cuDeviceGetCount, (&count));
    if (error == cudaSuccess)
        error = device < 0 || device >= count ? cudaErrorInvalidDevice
                                              : use_device(device);
    return finish(error);
}

SIM_RUNTIME(cudaError_t, cudaDeviceReset, void)
{
    CUdevice device;
    cudaError_t error = initialize();
    if (error != cudaSuccess)
        return finish(error);
    if (SIM_DRIVER(cuCtxGetDevice, (&device)) != cudaSuccess)
        device = chosen_device;
    error = SIM_DRIVER(cuDevicePrimaryCtxReset, (device));
    if (retained[device].exchange(false))
        SIM_DRIVER(cuDevicePrimaryCtxRelease, (device));
    SIM_DRIVER(cuCtxSetCurrent, (nullptr));
    return finish(error);
}

SIM_RUNTIME(cudaError_t, cudaRuntimeGetVersion, int *version)
{
    *version = SIM_CUDART_VERSION;
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaGetLastError, void)
{
    return std::exchange(last_error, cudaSuccess);
}

SIM_RUNTIME(const char *, cudaGetErrorString, cudaError_t error)
{
    const char *text = nullptr;
    if (error == cudaErrorInsufficientDriver)
        return "CUDA driver version is insufficient for CUDA runtime version";
    SIM_DRIVER(cuGetErrorString, (CUresult(error), &text));
    return text ? text : "unrecognized error code";
}

// clang-format off
SIM_RUNTIME_FORWARD(initialize, cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId,
                    (id, length, device), char *id, int length, int device)
SIM_RUNTIME_FORWARD(begin, cudaDeviceSynchronize, cuCtxSynchronize, (), void)
SIM_RUNTIME_FORWARD(begin, cudaStreamCreateWithFlags, cuStreamCreate, (out, flags),
                    cudaStream_t *out, unsigned flags)
SIM_RUNTIME_FORWARD(begin, cudaStreamDestroy, cuStreamDestroy, (stream),
                    cudaStream_t stream)
SIM_RUNTIME_FORWARD(begin, cudaStreamSynchronize, cuStreamSynchronize, (stream),
                    cudaStream_t stream)

SIM_RUNTIME_FORWARD(begin, cudaMalloc, cuMemAlloc, (dev(out), size),
                    void **out, size_t size)
SIM_RUNTIME_FORWARD(begin, cudaMallocPitch, cuMemAllocPitch,
                    (dev(out), pitch, width, height, 4),
                    void **out, size_t *pitch, size_t width, size_t height)
SIM_RUNTIME_FORWARD(begin, cudaMallocManaged, cuMemAllocManaged,
                    (dev(out), size, flags),
                    void **out, size_t size, unsigned flags)
SIM_RUNTIME_FORWARD(begin, cudaHostAlloc, cuMemHostAlloc, (out, size, flags),
                    void **out, size_t size, unsigned flags)
SIM_RUNTIME_FORWARD(begin, cudaHostRegister, cuMemHostRegister, (address, size, flags),
                    void *address, size_t size, unsigned flags)
SIM_RUNTIME_FORWARD(begin, cudaHostUnregister, cuMemHostUnregister, (address),
                    void *address)
SIM_RUNTIME_FORWARD(begin, cudaMallocAsync, cuMemAllocAsync, (dev(out), size, stream),
                    void **out, size_t size, cudaStream_t stream)
SIM_RUNTIME_FORWARD(begin, cudaMallocFromPoolAsync, cuMemAllocFromPoolAsync,
                    (dev(out), size, pool, stream),
                    void **out, size_t size, cudaMemPool_t pool,
                    cudaStream_t stream)
SIM_RUNTIME_FORWARD(begin, cudaMemset, cuMemsetD8,
                    (dev(to), static_cast<unsigned char>(value), size),
                    void *to, int value, size_t size)
// clang-format on

SIM_RUNTIME_FREE(cudaFree, cuMemFree, (dev(address)), void *address)
SIM_RUNTIME_FREE(cudaFreeHost, cuMemFreeHost, (address), void *address)
SIM_RUNTIME_FREE(cudaFreeAsync, cuMemFreeAsync, (dev(address), stream),
                 void *address, cudaStream_t stream)

SIM_RUNTIME(cudaError_t, cudaHostGetDevicePointer, void **out, void *address,
            unsigned)
{
    *out = address;
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaMemcpy, void *to, const void *from, size_t size,
            cudaMemcpyKind kind)
{
    if (cudaError_t error = begin())
        return finish(error);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return finish(SIM_DRIVER(cuMemcpyHtoD, (dev(to), from, size)));
    case cudaMemcpyDeviceToHost:
        return finish(SIM_DRIVER(cuMemcpyDtoH, (to, dev(from), size)));
    case cudaMemcpyDeviceToDevice:
        return finish(SIM_DRIVER(cuMemcpyDtoD, (dev(to), dev(from), size)));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return finish(SIM_DRIVER(cuMemcpy, (dev(to), dev(from), size)));
    }
    return finish(cudaErrorInvalidMemcpyDirection);
}

// Functions that code from nvcc calls. A program registers its kernels and
// variables when it is loaded, which always works. Their use needs an image for
// the GPU. The simulated GPU has none: the error is that of a GPU for which the
// program was not built.
namespace {

cudaError_t no_image()
{
    const cudaError_t error = begin();
    return finish(error != cudaSuccess ? error
                                       : cudaErrorNoKernelImageForDevice);
}

} // namespace

// They take arguments, which are ignored.
#define SIM_RUNTIME_NVCC(_type, _name, _result)                                \
    SIM_RUNTIME(_type, _name, void)                                            \
    {                                                                          \
        return _result;                                                        \
    }

SIM_RUNTIME_NVCC(void, __cudaRegisterFatBinaryEnd, void())
SIM_RUNTIME_NVCC(void, __cudaUnregisterFatBinary, void())
SIM_RUNTIME_NVCC(void, __cudaRegisterFunction, void())
SIM_RUNTIME_NVCC(void, __cudaRegisterVar, void())
// Called between <<<...>>> and the launch, which fails in any case.
SIM_RUNTIME_NVCC(unsigned, __cudaPushCallConfiguration, 0)
SIM_RUNTIME_NVCC(cudaError_t, __cudaPopCallConfiguration, cudaSuccess)
SIM_RUNTIME_NVCC(cudaError_t, cudaLaunchKernel, no_image())
SIM_RUNTIME_NVCC(cudaError_t, __cudaLaunchKernel, no_image())
SIM_RUNTIME_NVCC(cudaError_t, cudaGetSymbolSize, no_image())
SIM_RUNTIME_NVCC(cudaError_t, cudaGetSymbolAddress, no_image())

SIM_RUNTIME(void **, __cudaRegisterFatBinary, void *)
{
    static void *program;
    return &program;
}

// From 13 on, nvcc's code first asks for a handle. It is the kernel's address.
SIM_RUNTIME(cudaError_t, __cudaGetKernel, const void **out, const void *kernel)
{
    *out = kernel;
    return cudaSuccess;
}
