// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_COMMON_GPU_H_
#define TEST_GTEST_COMMON_GPU_H_

#include "../../cuda_sim/cuda_sim.h"
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <vector>

// The driver as a program of a user sees it: the simulated libcuda here, a
// real one would do for all but sim(). The tests link with no libcuda.
namespace gpu {

template <typename T>
T *entry(const char *name)
{
    static void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *found = (library == nullptr) ? nullptr : dlsym(library, name);

    if (found == nullptr) {
        throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    }
    return reinterpret_cast<T *>(found);
}

// GPU_CALL(cuMemFree, address): fails loudly.
#define GPU_STRING_(_name) #_name
#define GPU_STRING(_name)  GPU_STRING_(_name)
#define GPU_CALL(_name, ...)                                                   \
    gpu::check(gpu::entry<decltype(_name)>(GPU_STRING(_name))(__VA_ARGS__),    \
               GPU_STRING(_name))

inline void check(CUresult result, const char *name)
{
    if (result != CUDA_SUCCESS) {
        throw std::runtime_error(std::string(name) + ": CUDA error " +
                                 std::to_string(static_cast<int>(result)));
    }
}

// A function of the simulated GPU beside the Driver API.
#define SIM_CALL(_name, ...) gpu::entry<decltype(_name)>(#_name)(__VA_ARGS__)

// Makes a GPU's primary context current in this thread.
inline void use(int ordinal = 0)
{
    CUdevice device   = 0;
    CUcontext context = nullptr;

    GPU_CALL(cuInit, 0);
    GPU_CALL(cuDeviceGet, &device, ordinal);
    GPU_CALL(cuDevicePrimaryCtxRetain, &context, device);
    GPU_CALL(cuCtxSetCurrent, context);
}

// Makes a context of its own current in this thread. The call's parameters
// depend on the version.
inline CUcontext create_context(int ordinal)
{
    CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
    GPU_CALL(cuCtxCreate, &context, nullptr, 0, ordinal);
#else
    GPU_CALL(cuCtxCreate, &context, 0, ordinal);
#endif
    return context;
}

// cuMemAlloc'ed memory of the current context.
class buffer {
public:
    explicit buffer(size_t size) : size_(size)
    {
        GPU_CALL(cuMemAlloc, &address_, size);
    }
    ~buffer() { release(); }
    buffer(const buffer &)            = delete;
    buffer &operator=(const buffer &) = delete;

    void release()
    {
        if (address_ != 0) {
            entry<decltype(cuMemFree)>(GPU_STRING(cuMemFree))(address_);
            address_ = 0;
        }
    }
    uintptr_t address() const { return address_; }
    void *pointer() const { return reinterpret_cast<void *>(address_); }
    size_t size() const { return size_; }

private:
    CUdeviceptr address_ = 0;
    size_t size_;
};

// A reserved range with one mapped VMM segment after the other.
class segments {
public:
    segments(unsigned count, int ordinal = 0, bool rdma_capable = true)
        : handles_(count)
    {
        prop_.type                            = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop_.location.type                   = CU_MEM_LOCATION_TYPE_DEVICE;
        prop_.location.id                     = ordinal;
        prop_.allocFlags.gpuDirectRDMACapable = rdma_capable;
        GPU_CALL(cuMemGetAllocationGranularity, &step_, &prop_,
                 CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        GPU_CALL(cuMemAddressReserve, &address_, size(), step_, 0, 0);
        for (unsigned i = 0; i < count; ++i) {
            map(i);
        }
    }
    ~segments()
    {
        for (unsigned i = 0; i < handles_.size(); ++i) {
            entry<decltype(cuMemUnmap)>("cuMemUnmap")(address_ + i * step_,
                                                      step_);
            entry<decltype(cuMemRelease)>("cuMemRelease")(handles_[i]);
        }
        entry<decltype(cuMemAddressFree)>("cuMemAddressFree")(address_, size());
    }
    segments(const segments &)            = delete;
    segments &operator=(const segments &) = delete;

    uintptr_t address() const { return address_; }
    size_t step() const { return step_; }
    size_t size() const { return handles_.size() * step_; }

    // Other memory behind one of them.
    void remap(unsigned index)
    {
        GPU_CALL(cuMemUnmap, address_ + index * step_, step_);
        GPU_CALL(cuMemRelease, handles_[index]);
        map(index);
    }
    void remap(unsigned index, int ordinal, bool rdma_capable)
    {
        prop_.location.id                     = ordinal;
        prop_.allocFlags.gpuDirectRDMACapable = rdma_capable;
        remap(index);
    }

private:
    void map(unsigned index)
    {
        CUmemAccessDesc access{};
        access.location = prop_.location;
        access.flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        GPU_CALL(cuMemCreate, &handles_[index], step_, &prop_, 0);
        GPU_CALL(cuMemMap, address_ + index * step_, step_, 0, handles_[index],
                 0);
        GPU_CALL(cuMemSetAccess, address_ + index * step_, step_, &access, 1);
    }

    CUmemAllocationProp prop_{};
    CUdeviceptr address_ = 0;
    size_t step_         = 0;
    std::vector<CUmemGenericAllocationHandle> handles_;
};

// A kernel in the legacy stream that runs until the end of the scope.
class running_kernel {
public:
    running_kernel() { SIM_CALL(cuda_sim_kernel_start); }
    ~running_kernel() { SIM_CALL(cuda_sim_kernel_stop); }
    running_kernel(const running_kernel &)            = delete;
    running_kernel &operator=(const running_kernel &) = delete;

    // How many calls wait for it.
    uint64_t waiters() const { return SIM_CALL(cuda_sim_kernel_waiters); }
};

// A stream that captures, in the thread that made it.
class capture {
public:
    explicit capture(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL,
                     unsigned flags           = CU_STREAM_DEFAULT)
    {
        GPU_CALL(cuStreamCreate, &stream_, flags);
        GPU_CALL(cuStreamBeginCapture, stream_, mode);
    }
    capture(const capture &)            = delete;
    capture &operator=(const capture &) = delete;

    // Whether nothing has disturbed it.
    bool end()
    {
        CUgraph graph   = nullptr;
        CUresult result = entry<decltype(cuStreamEndCapture)>(
            "cuStreamEndCapture")(stream_, &graph);
        GPU_CALL(cuStreamDestroy, stream_);
        if (result == CUDA_SUCCESS) {
            GPU_CALL(cuGraphDestroy, graph);
        }
        return result == CUDA_SUCCESS;
    }

private:
    CUstream stream_ = nullptr;
};

// Failures on demand, until the end of the scope.
class scoped_fail {
public:
    explicit scoped_fail(const std::string &spec)
    {
        if (entry<decltype(cuda_sim_set_fail)>("cuda_sim_set_fail")(
                spec.c_str()) != 0) {
            throw std::runtime_error("wrong: " + spec);
        }
    }
    ~scoped_fail()
    {
        entry<decltype(cuda_sim_set_fail)>("cuda_sim_set_fail")(nullptr);
    }
    scoped_fail(const scoped_fail &)            = delete;
    scoped_fail &operator=(const scoped_fail &) = delete;
};

} // namespace gpu

#endif
