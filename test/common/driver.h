// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <cuda.h>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <string_view>

// The driver as a user's program sees it, simulated or real. The tests do not
// link with libcuda, so that they also run without one. Thread-safe. A failure
// throws an exception, which ends a program that does not expect it.
namespace gpu {

// Returns nullptr if there is no libcuda. UCX looks for the functions that it
// hooks among the global symbols, as in a program that is linked with libcuda.
// So MPI programs call this before MPI_Init. MPI_TESTS_LIBCUDA=local loads
// libcuda with local symbols, as some programs do.
inline void *library()
{
    static void *const opened = [] {
        const char *scope = std::getenv("MPI_TESTS_LIBCUDA");
        const bool local  = scope && std::string_view(scope) == "local";
        return dlopen("libcuda.so.1",
                      RTLD_NOW | (local ? RTLD_LOCAL : RTLD_GLOBAL));
    }();
    return opened;
}

template <typename T>
T *entry(const char *name)
{
    void *found = (library() == nullptr) ? nullptr : dlsym(library(), name);

    if (found == nullptr) {
        throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    }
    return reinterpret_cast<T *>(found);
}

inline void check(CUresult result, const char *name)
{
    if (result != CUDA_SUCCESS) {
        throw std::runtime_error(std::string(name) + ": CUDA error " +
                                 std::to_string(static_cast<int>(result)));
    }
}

inline bool is_simulated()
{
    return library() != nullptr &&
           dlsym(library(), "cuda_sim_calls") != nullptr;
}

// GPU_CALL(cuMemFree, address) throws if the call fails. GPU_TRY returns the
// result. CUDA's header maps a name like cuMemFree to the newest version; so do
// these. Each place looks its function up once, so that later calls cost no
// lookup.
#define GPU_STRING_(_name) #_name
#define GPU_STRING(_name)  GPU_STRING_(_name)
#define GPU_TRY(_name, ...)                                                    \
    ([]() {                                                                    \
        static auto *const gpu_entry =                                         \
            gpu::entry<decltype(_name)>(GPU_STRING(_name));                    \
        return gpu_entry;                                                      \
    }())(__VA_ARGS__)
#define GPU_CALL(_name, ...)                                                   \
    gpu::check(GPU_TRY(_name, __VA_ARGS__), GPU_STRING(_name))

// Returns the number of GPUs; 0 if there is no libcuda.
inline int count()
{
    int found = 0;

    if (library() == nullptr || GPU_TRY(cuInit, 0) != CUDA_SUCCESS ||
        GPU_TRY(cuDeviceGetCount, &found) != CUDA_SUCCESS) {
        return 0;
    }
    return found;
}

// Makes a GPU's primary context current in this thread, and never releases it.
inline CUcontext use(int ordinal = 0)
{
    CUdevice device   = 0;
    CUcontext context = nullptr;

    GPU_CALL(cuInit, 0);
    GPU_CALL(cuDeviceGet, &device, ordinal);
    GPU_CALL(cuDevicePrimaryCtxRetain, &context, device);
    GPU_CALL(cuCtxSetCurrent, context);
    return context;
}

inline int current()
{
    CUdevice device = 0;

    GPU_CALL(cuCtxGetDevice, &device);
    return device;
}

// Makes a new context current in this thread. cuCtxCreate_v2 has the same
// parameters in all versions of CUDA.
inline CUresult create_context(CUcontext *out, int ordinal)
{
    static auto *const create =
        entry<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2");
    return create(out, 0, ordinal);
}
inline CUcontext create_context(int ordinal)
{
    CUcontext context = nullptr;

    check(create_context(&context, ordinal), "cuCtxCreate_v2");
    return context;
}

} // namespace gpu
