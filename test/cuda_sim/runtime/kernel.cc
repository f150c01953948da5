// SPDX-License-Identifier: BSD-3-Clause
//
// What programs from nvcc call: they register their kernels and variables when
// they are loaded, which always works. Using them takes an image for the GPU.
// There is none for the simulated one, which is said as on a GPU that a program
// was not built for.
#include "runtime.h"

#include <map>
#include <mutex>
#include <vector>

// From nvcc's own headers, which only its code includes.
struct uint3;

namespace ucx_ib_dmabuf::sim {
namespace {

struct Program {
    std::map<const void *, size_t> variables;
    std::map<const void *, const char *> kernels;
};

// By their handles.
struct Programs {
    std::mutex lock;
    std::map<void **, Program> all;
};

// Never destroyed: programs leave at exit.
Programs &programs()
{
    static Programs &loaded = *new Programs();
    return loaded;
}

template <typename Map>
bool is_registered(Map Program::*map, const void *symbol)
{
    std::lock_guard guard(programs().lock);
    for (auto &[handle, program] : programs().all) {
        if ((program.*map).count(symbol))
            return true;
    }
    return false;
}

// What a use of a variable or a kernel comes to.
template <typename Map>
cudaError_t use(Map Program::*map, const void *symbol, cudaError_t unknown)
{
    const Driver *d;
    if (!is_registered(map, symbol))
        return finish(unknown);
    cudaError_t error = begin(&d);
    return finish(error != cudaSuccess ? error
                                       : cudaErrorNoKernelImageForDevice);
}

bool is_empty(dim3 dimensions)
{
    return !dimensions.x || !dimensions.y || !dimensions.z;
}

cudaError_t launch(const void *kernel, dim3 grid, dim3 block)
{
    if (is_empty(grid) || is_empty(block))
        return finish(cudaErrorInvalidConfiguration);
    return use(&Program::kernels, kernel, cudaErrorInvalidDeviceFunction);
}

// Between <<<...>>> and the launch.
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_RUNTIME(void **, __cudaRegisterFatBinary, void *)
{
    static uintptr_t last;
    std::lock_guard guard(programs().lock);
    auto handle = reinterpret_cast<void **>(++last);
    programs().all[handle];
    return handle;
}

SIM_RUNTIME(void, __cudaRegisterFatBinaryEnd, void **) {}

SIM_RUNTIME(void, __cudaUnregisterFatBinary, void **handle)
{
    std::lock_guard guard(programs().lock);
    programs().all.erase(handle);
}

SIM_RUNTIME(void, __cudaRegisterFunction, void **handle, const char *kernel,
            char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *,
            int *)
{
    std::lock_guard guard(programs().lock);
    programs().all[handle].kernels[kernel] = name;
}

SIM_RUNTIME(void, __cudaRegisterVar, void **handle, char *variable, char *,
            const char *, int, size_t size, int, int)
{
    std::lock_guard guard(programs().lock);
    programs().all[handle].variables[variable] = size;
}

SIM_RUNTIME(unsigned, __cudaPushCallConfiguration, dim3 grid, dim3 block,
            size_t shared, cudaStream_t stream)
{
    configurations.push_back({grid, block, shared, stream});
    return 0;
}

SIM_RUNTIME(cudaError_t, __cudaPopCallConfiguration, dim3 *grid, dim3 *block,
            size_t *shared, void *stream)
{
    if (configurations.empty())
        return finish(cudaErrorMissingConfiguration);
    const Configuration &last            = configurations.back();
    *grid                                = last.grid;
    *block                               = last.block;
    *shared                              = last.shared;
    *static_cast<cudaStream_t *>(stream) = last.stream;
    configurations.pop_back();
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, cudaLaunchKernel, const void *kernel, dim3 grid,
            dim3 block, void **, size_t, cudaStream_t)
{
    return launch(kernel, grid, block);
}

// From 13 on nvcc's code asks for a handle first. It is the kernel's address.
SIM_RUNTIME(cudaError_t, __cudaGetKernel, const void **out, const void *kernel)
{
    if (!is_registered(&Program::kernels, kernel))
        return finish(cudaErrorInvalidDeviceFunction);
    *out = kernel;
    return cudaSuccess;
}

SIM_RUNTIME(cudaError_t, __cudaLaunchKernel, const void *kernel, dim3 grid,
            dim3 block, void **, size_t, cudaStream_t)
{
    return launch(kernel, grid, block);
}

SIM_RUNTIME(cudaError_t, cudaGetSymbolSize, size_t *, const void *symbol)
{
    return use(&Program::variables, symbol, cudaErrorInvalidSymbol);
}

SIM_RUNTIME(cudaError_t, cudaGetSymbolAddress, void **, const void *symbol)
{
    return use(&Program::variables, symbol, cudaErrorInvalidSymbol);
}
