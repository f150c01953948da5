// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "driver.h"
#include "sim.h"
#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

// Memory of every kind, freed when its object is destroyed.
namespace gpu {

enum class memory {
    host,    // malloc
    device,  // cuMemAlloc
    pool,    // cuMemAllocAsync
    vmm,     // cuMemCreate, mapped into a reservation
    managed, // cuMemAllocManaged
    pinned,  // cuMemHostAlloc
    // `opened` and `imported` play another process's memory. It is this
    // process's own, which only the simulated driver opens.
    variable,    // of a module
    opened,      // cuIpcOpenMemHandle
    imported,    // cuMemImportFromShareableHandle, mapped
    incapable,   // mapped, without gpuDirectRDMACapable
    mapped_host, // mapped memory of the host, to which the CPU has no access
};

inline const char *name_of(memory kind)
{
    constexpr const char *names[] = {
        "host",     "device", "pool",     "vmm",       "managed",    "pinned",
        "variable", "opened", "imported", "incapable", "mapped host"};
    return names[static_cast<int>(kind)];
}

// Whether the GPU has the bytes, so that the CPU must not touch them.
constexpr bool is_device(memory kind)
{
    return kind != memory::host && kind != memory::managed &&
           kind != memory::pinned;
}

// The properties of memory to be mapped, of a GPU or of the host
// (CU_DEVICE_CPU), and a GPU's access to it.
inline CUmemAllocationProp properties(int ordinal = 0, bool rdma_capable = true)
{
    // CU_MEM_LOCATION_TYPE_HOST_NUMA, of CUDA 12.2.
    constexpr auto host_numa = static_cast<CUmemLocationType>(3);
    const bool is_host       = ordinal == CU_DEVICE_CPU;
    CUmemAllocationProp all  = {};
    all.type                 = CU_MEM_ALLOCATION_TYPE_PINNED;
    all.location.type = is_host ? host_numa : CU_MEM_LOCATION_TYPE_DEVICE;
    all.location.id   = is_host ? 0 : ordinal;
    all.allocFlags.gpuDirectRDMACapable = rdma_capable;
    return all;
}
inline CUmemAccessDesc access(int ordinal = 0)
{
    return {properties(ordinal).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

// Physical memory of a GPU, to be mapped. The program ends if freeing it or its
// addresses fails.
class physical {
public:
    explicit physical(size_t size, int ordinal = current(),
                      bool rdma_capable = true, bool shareable = false)
        : size_(size), ordinal_(ordinal)
    {
        auto all = properties(ordinal, rdma_capable);
        if (shareable) {
            all.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        }
        GPU_CALL(cuMemCreate, &handle_, size, &all, 0);
    }
    // Imports the other object's memory, as another process would.
    explicit physical(physical &made)
        : size_(made.size_), ordinal_(made.ordinal_)
    {
        constexpr auto as = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        int fd            = -1;
        GPU_CALL(cuMemExportToShareableHandle, &fd, made.handle_, as, 0);
        GPU_CALL(cuMemImportFromShareableHandle, &handle_,
                 reinterpret_cast<void *>(intptr_t{fd}), as);
        close(fd);
    }
    ~physical() { GPU_CALL(cuMemRelease, handle_); }
    physical(const physical &)            = delete;
    physical &operator=(const physical &) = delete;

    // Returns the unit of all sizes.
    static size_t granularity(int ordinal)
    {
        const auto all = properties(ordinal);
        size_t found   = 0;
        GPU_CALL(cuMemGetAllocationGranularity, &found, &all,
                 CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        return found;
    }

    // Maps it with access for its own GPU.
    void map(CUdeviceptr at) const
    {
        GPU_CALL(cuMemMap, at, size_, 0, handle_, 0);
        allow(at, std::max(ordinal_, 0));
    }
    void allow(CUdeviceptr at, int ordinal) const
    {
        const auto all = access(ordinal);
        GPU_CALL(cuMemSetAccess, at, size_, &all, 1);
    }
    void unmap(CUdeviceptr at) const { GPU_CALL(cuMemUnmap, at, size_); }

private:
    size_t size_;
    int ordinal_;
    CUmemGenericAllocationHandle handle_ = 0;
};

// Reserved addresses of device memory, not yet mapped.
class reservation {
public:
    explicit reservation(size_t size, CUdeviceptr wanted = 0) : size_(size)
    {
        GPU_CALL(cuMemAddressReserve, &base_, size, 0, wanted, 0);
    }
    ~reservation() { GPU_CALL(cuMemAddressFree, base_, size_); }
    reservation(const reservation &)            = delete;
    reservation &operator=(const reservation &) = delete;

    CUdeviceptr address(size_t offset = 0) const { return base_ + offset; }
    uint8_t *at(size_t offset = 0) const
    {
        return reinterpret_cast<uint8_t *>(address(offset));
    }
    size_t size() const { return size_; }

private:
    CUdeviceptr base_ = 0;
    size_t size_;
};

// Memory of one kind, of the current context's GPU.
class buffer {
public:
    explicit buffer(size_t size, memory kind = memory::device);
    // The memory may be gone with its context; errors are ignored.
    ~buffer() { release(); }

    CUresult release();

    memory kind() const { return kind_; }
    uintptr_t address() const { return address_; }
    void *pointer() const { return reinterpret_cast<void *>(address_); }
    uint8_t *at(size_t offset = 0) const
    {
        return reinterpret_cast<uint8_t *>(address_ + offset);
    }
    size_t size() const { return size_; }

private:
    void map();
    void find_variable();
    void open();

    memory kind_;
    size_t size_;
    CUdeviceptr address_ = 0;
    CUmodule module_     = nullptr;
    std::unique_ptr<buffer> source_;     // of `opened`
    std::unique_ptr<physical> physical_; // of mapped kinds
    std::unique_ptr<reservation> place_;
};

inline buffer::buffer(size_t size, memory kind) : kind_(kind), size_(size)
{
    void *host = nullptr;

    switch (kind) {
    case memory::host:
        host = std::malloc(size);
        break;
    case memory::pinned:
        GPU_CALL(cuMemHostAlloc, &host, size, 0);
        break;
    case memory::device:
        GPU_CALL(cuMemAlloc, &address_, size);
        return;
    case memory::managed:
        GPU_CALL(cuMemAllocManaged, &address_, size, CU_MEM_ATTACH_GLOBAL);
        return;
    case memory::pool:
        GPU_CALL(cuMemAllocAsync, &address_, size, nullptr);
        GPU_CALL(cuStreamSynchronize, nullptr);
        return;
    case memory::vmm:
    case memory::imported:
    case memory::incapable:
    case memory::mapped_host:
        map();
        return;
    case memory::variable:
        find_variable();
        return;
    case memory::opened:
        open();
        return;
    }
    address_ = reinterpret_cast<CUdeviceptr>(host);
}

// Allows access by all GPUs.
inline void buffer::map()
{
    const size_t step    = physical::granularity(current());
    const size_t rounded = (size_ + step - 1) / step * step;

    physical_ = std::make_unique<physical>(
        rounded, (kind_ == memory::mapped_host) ? CU_DEVICE_CPU : current(),
        kind_ != memory::incapable, kind_ == memory::imported);
    if (kind_ == memory::imported) {
        physical_ = std::make_unique<physical>(*physical_);
    }
    place_   = std::make_unique<reservation>(rounded);
    address_ = place_->address();
    physical_->map(address_);
    for (int i = 0; i < count(); ++i) {
        physical_->allow(address_, i);
    }
}

inline void buffer::find_variable()
{
    const std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n"
                             ".visible .global .align 8 .b8 data[" +
                             std::to_string(size_) + "];\n";
    size_t found = 0;

    GPU_CALL(cuModuleLoadData, &module_, text.c_str());
    GPU_CALL(cuModuleGetGlobal, &address_, &found, module_, "data");
}

inline void buffer::open()
{
    CUipcMemHandle handle;

    source_ = std::make_unique<buffer>(size_);
    GPU_CALL(cuIpcGetMemHandle, &handle, source_->address());
    GPU_CALL(cuIpcOpenMemHandle, &address_, handle,
             CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

inline CUresult buffer::release()
{
    const CUdeviceptr address = std::exchange(address_, 0);
    CUresult result           = CUDA_SUCCESS;

    if (address == 0) {
        return result;
    }
    switch (kind_) {
    case memory::host:
        std::free(reinterpret_cast<void *>(address));
        break;
    case memory::pinned:
        result = GPU_TRY(cuMemFreeHost, reinterpret_cast<void *>(address));
        break;
    case memory::device:
    case memory::managed:
        result = GPU_TRY(cuMemFree, address);
        break;
    case memory::pool:
        result = GPU_TRY(cuMemFreeAsync, address, nullptr);
        if (result == CUDA_SUCCESS) {
            result = GPU_TRY(cuStreamSynchronize, nullptr);
        }
        break;
    case memory::variable:
        result = GPU_TRY(cuModuleUnload, module_);
        break;
    case memory::opened:
        result = GPU_TRY(cuIpcCloseMemHandle, address);
        source_.reset();
        break;
    case memory::vmm:
    case memory::imported:
    case memory::incapable:
    case memory::mapped_host:
        physical_->unmap(address);
        place_.reset();
        physical_.reset();
        break;
    }
    return result;
}

// A reserved range with VMM segments mapped one after the other from its start:
// all of them, or the first `mapped` ones.
class segments {
public:
    explicit segments(unsigned count, int ordinal = 0, bool rdma_capable = true,
                      unsigned mapped = UINT_MAX)
        : step_(physical::granularity(ordinal)), place_(count * step_),
          memory_(std::min(count, mapped))
    {
        for (unsigned i = 0; i < memory_.size(); ++i) {
            map(i, ordinal, rdma_capable);
        }
    }
    ~segments()
    {
        for (unsigned i = 0; i < memory_.size(); ++i) {
            unmap(i);
        }
    }

    uintptr_t address() const { return place_.address(); }
    size_t step() const { return step_; }
    size_t size() const { return place_.size(); }

    // Maps new memory in place of a segment.
    void remap(unsigned index, int ordinal = 0, bool rdma_capable = true)
    {
        unmap(index);
        map(index, ordinal, rdma_capable);
    }
    void unmap(unsigned index)
    {
        if (memory_[index]) {
            memory_[index]->unmap(place_.address(index * step_));
            memory_[index].reset();
        }
    }

private:
    void map(unsigned index, int ordinal, bool rdma_capable)
    {
        memory_[index].emplace(step_, ordinal, rdma_capable);
        memory_[index]->map(place_.address(index * step_));
    }

    size_t step_;
    reservation place_;
    std::vector<std::optional<physical>> memory_;
};

// A stream under capture. The thread that made it must end it.
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

    // Ends the capture. Returns whether nothing has invalidated it.
    bool end()
    {
        CUgraph graph   = nullptr;
        CUresult result = GPU_TRY(cuStreamEndCapture, stream_, &graph);
        GPU_CALL(cuStreamDestroy, stream_);
        if (result == CUDA_SUCCESS) {
            GPU_CALL(cuGraphDestroy, graph);
        }
        return result == CUDA_SUCCESS;
    }

private:
    CUstream stream_ = nullptr;
};

} // namespace gpu
