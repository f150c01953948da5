// SPDX-License-Identifier: BSD-3-Clause
//
// Functions that code from nvcc calls. A program registers its kernels and
// variables when it is loaded, which always works. Their use needs an image for
// the GPU. The simulated GPU has none: the error is that of a GPU for which the
// program was not built.
#include "runtime.h"

using namespace ucx_ib_dmabuf::sim;

// These are declared in nvcc's own headers, which only its code includes.
struct uint3;

namespace {

cudaError_t no_image()
{
    const Driver *d;
    cudaError_t error = begin(&d);
    return finish(error != cudaSuccess ? error
                                       : cudaErrorNoKernelImageForDevice);
}

} // namespace

SIM_RUNTIME(void **, __cudaRegisterFatBinary, void *)
{
    static void *program;
    return &program;
}

SIM_RUNTIME(void, __cudaRegisterFatBinaryEnd, void **) {}

SIM_RUNTIME(void, __cudaUnregisterFatBinary, void **) {}

SIM_RUNTIME(void, __cudaRegisterFunction, void **, const char *, char *,
            const char *, int, uint3 *, uint3 *, dim3 *, dim3 *, int *)
{
}

SIM_RUNTIME(void, __cudaRegisterVar, void **, char *, char *, const char *, int,
            size_t, int, int)
{
}

// Called between <<<...>>> and the launch, which fails in any case.
SIM_RUNTIME(unsigned, __cudaPushCallConfiguration, dim3, dim3, size_t,
            cudaStream_t)
{
    return 0;
}

SIM_RUNTIME(cudaError_t, __cudaPopCallConfiguration, dim3 *, dim3 *, size_t *,
            void *)
{
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaLaunchKernel, const void *, dim3, dim3, void **,
            size_t, cudaStream_t)
{
    return no_image();
}

// From 13 on, nvcc's code first asks for a handle. It is the kernel's address.
SIM_RUNTIME(cudaError_t, __cudaGetKernel, const void **out, const void *kernel)
{
    *out = kernel;
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, __cudaLaunchKernel, const void *, dim3, dim3, void **,
            size_t, cudaStream_t)
{
    return no_image();
}

SIM_RUNTIME(cudaError_t, cudaGetSymbolSize, size_t *, const void *)
{
    return no_image();
}

SIM_RUNTIME(cudaError_t, cudaGetSymbolAddress, void **, const void *)
{
    return no_image();
}
