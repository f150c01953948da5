// SPDX-License-Identifier: BSD-3-Clause
#include "runtime.h"

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

SIM_RUNTIME_FORWARD(cudaDeviceSynchronize, cuCtxSynchronize, (), void)

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

SIM_RUNTIME(cudaError_t, cudaDeviceGetPCIBusId, char *id, int length,
            int device)
{
    const Driver *d;
    cudaError_t error = begin_without_context(&d);
    if (error != cudaSuccess)
        return finish(error);
    return finish(d->p_cuDeviceGetPCIBusId(id, length, device));
}

SIM_RUNTIME(cudaError_t, cudaRuntimeGetVersion, int *version)
{
    *version = SIM_CUDART_VERSION;
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaGetLastError, void)
{
    return take_last_error();
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

SIM_RUNTIME_FORWARD(cudaStreamCreateWithFlags, cuStreamCreate, (out, flags),
                    cudaStream_t *out, unsigned flags)
SIM_RUNTIME_FORWARD(cudaStreamDestroy, cuStreamDestroy, (stream),
                    cudaStream_t stream)
SIM_RUNTIME_FORWARD(cudaStreamSynchronize, cuStreamSynchronize, (stream),
                    cudaStream_t stream)
SIM_RUNTIME_FORWARD(cudaEventCreateWithFlags, cuEventCreate, (out, flags),
                    cudaEvent_t *out, unsigned flags)
SIM_RUNTIME_FORWARD(cudaEventDestroy, cuEventDestroy, (event),
                    cudaEvent_t event)
SIM_RUNTIME_FORWARD(cudaEventQuery, cuEventQuery, (event), cudaEvent_t event)
SIM_RUNTIME_FORWARD(cudaEventRecord, cuEventRecord, (event, stream),
                    cudaEvent_t event, cudaStream_t stream)
