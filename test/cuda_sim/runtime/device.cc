// SPDX-License-Identifier: BSD-3-Clause
#include "runtime.h"

#include <cstring>

using namespace ucx_ib_dmabuf::sim;

SIM_RUNTIME(cudaError_t, cudaGetDeviceCount, int *count)
{
    const Driver *d;
    *count            = 0;
    cudaError_t error = begin_without_context(&d);
    return finish(error != cudaSuccess
                      ? error
                      : cudaError_t(d->p_cuDeviceGetCount(count)));
}

SIM_RUNTIME(cudaError_t, cudaSetDevice, int device)
{
    const Driver *d;
    int count         = 0;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    d->p_cuDeviceGetCount(&count);
    if (device < 0 || device >= count)
        return finish(cudaErrorInvalidDevice);
    return finish(use_device(*d, device));
}

SIM_RUNTIME(cudaError_t, cudaGetDevice, int *device)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    *device = current_device(*d);
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaDeviceSynchronize, void)
{
    SIM_FORWARD(cuCtxSynchronize);
}

SIM_RUNTIME(cudaError_t, cudaDeviceReset, void)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    int device      = current_device(*d);
    CUresult result = d->p_cuDevicePrimaryCtxReset(device);
    device_was_reset(device);
    return finish(result);
}

SIM_RUNTIME(cudaError_t, cudaDeviceGetAttribute, int *value,
            cudaDeviceAttr attribute, int device)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    return finish(d->p_cuDeviceGetAttribute(
        value, CUdevice_attribute(attribute), device));
}

SIM_RUNTIME(cudaError_t, cudaDeviceGetPCIBusId, char *id, int length,
            int device)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    return finish(d->p_cuDeviceGetPCIBusId(id, length, device));
}

SIM_RUNTIME(cudaError_t, cudaDeviceCanAccessPeer, int *can, int device,
            int peer)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    return finish(d->p_cuDeviceCanAccessPeer(can, device, peer));
}

SIM_RUNTIME(cudaError_t, cudaDeviceEnablePeerAccess, int, unsigned)
{
    return finish(cudaErrorPeerAccessUnsupported);
}

SIM_RUNTIME(cudaError_t, cudaDeviceGetDefaultMemPool, cudaMemPool_t *pool,
            int device)
{
    SIM_FORWARD(cuDeviceGetDefaultMemPool, pool, device);
}

// Another version's has another name or another layout.
#if SIM_CUDART_VERSION == CUDART_VERSION
SIM_RUNTIME(cudaError_t, cudaGetDeviceProperties, cudaDeviceProp *properties,
            int device)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    memset(properties, 0, sizeof(*properties));
    CUresult result = d->p_cuDeviceGetName(properties->name,
                                           sizeof(properties->name), device);
    if (result == CUDA_SUCCESS)
        result = d->p_cuDeviceTotalMem(&properties->totalGlobalMem, device);
    auto read = [&](int &field, CUdevice_attribute which) {
        d->p_cuDeviceGetAttribute(&field, which, device);
    };
    read(properties->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    read(properties->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    read(properties->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    read(properties->multiProcessorCount,
         CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    read(properties->unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
    read(properties->managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
    return finish(result);
}
#endif

SIM_RUNTIME(cudaError_t, cudaDriverGetVersion, int *version)
{
    const Driver &d = driver();
    *version        = 0; // no driver
    return d.error != cudaSuccess ? cudaSuccess
                                  : finish(d.p_cuDriverGetVersion(version));
}

SIM_RUNTIME(cudaError_t, cudaRuntimeGetVersion, int *version)
{
    *version = SIM_CUDART_VERSION;
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaGetLastError, void)
{
    return take_last_error(true);
}

SIM_RUNTIME(cudaError_t, cudaPeekAtLastError, void)
{
    return take_last_error(false);
}

SIM_RUNTIME(const char *, cudaGetErrorString, cudaError_t error)
{
    const char *text = nullptr;
    const Driver &d  = driver();
    if (error == cudaErrorInsufficientDriver)
        return "CUDA driver version is insufficient for CUDA runtime version";
    if (d.error == cudaSuccess)
        d.p_cuGetErrorString(CUresult(error), &text);
    return text ? text : "unrecognized error code";
}

SIM_RUNTIME(const char *, cudaGetErrorName, cudaError_t error)
{
    const char *text = nullptr;
    const Driver &d  = driver();
    if (d.error == cudaSuccess)
        d.p_cuGetErrorName(CUresult(error), &text);
    return text ? text : "unrecognized error code";
}

// What the plain name means is chosen by this library's CUDA version.
static cudaError_t entry_point(const char *symbol, void **out, int version,
                               unsigned long long flags,
                               cudaDriverEntryPointQueryResult *status)
{
    const Driver &d = driver();
    if (d.error != cudaSuccess)
        return finish(d.error);
    CUdriverProcAddressQueryResult found;
    CUresult result = d.p_cuGetProcAddress(symbol, out, version, flags, &found);
    if (status)
        *status = cudaDriverEntryPointQueryResult(found);
    return result == CUDA_ERROR_NOT_FOUND && status ? cudaSuccess
                                                    : finish(result);
}

#undef cudaGetDriverEntryPoint
SIM_RUNTIME(cudaError_t, cudaGetDriverEntryPoint, const char *symbol,
            void **out, unsigned long long flags,
            cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, out, SIM_CUDART_VERSION, flags, status);
}

SIM_RUNTIME(cudaError_t, cudaGetDriverEntryPointByVersion, const char *symbol,
            void **out, unsigned version, unsigned long long flags,
            cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, out, int(version), flags, status);
}
