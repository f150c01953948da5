// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <type_traits>

// The used part of the CUDA driver API, as NVIDIA documents it: the plug-in
// builds without a toolkit. In a namespace, as tests include cuda.h, too;
// test/build/cuda_api.cc compares both. Unmarked names exist in CUDA 11.0.
struct CUctx_st;
struct CUstream_st;
struct CUmemPoolHandle_st;

namespace ucx_ib_dmabuf {

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
using CUdevice     = int;
using CUdeviceptr  = unsigned long long;
using CUcontext    = CUctx_st *;
using CUstream     = CUstream_st *;
using CUmemoryPool = CUmemPoolHandle_st *; // CUDA 11.2

enum CUresult : int {
    CUDA_SUCCESS                              = 0,
    CUDA_ERROR_INVALID_VALUE                  = 1,
    CUDA_ERROR_OUT_OF_MEMORY                  = 2,
    CUDA_ERROR_NOT_INITIALIZED                = 3,
    CUDA_ERROR_STUB_LIBRARY                   = 34,
    CUDA_ERROR_NO_DEVICE                      = 100,
    CUDA_ERROR_INVALID_CONTEXT                = 201,
    CUDA_ERROR_NOT_FOUND                      = 500,
    CUDA_ERROR_CONTEXT_IS_DESTROYED           = 709,
    CUDA_ERROR_NOT_SUPPORTED                  = 801,
    CUDA_ERROR_SYSTEM_NOT_READY               = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH         = 803,
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED     = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED     = 901,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT        = 906,
};

enum CUdevice_attribute : int {
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED      = 110,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124, // CUDA 11.7
};

enum CUpointer_attribute : int {
    CU_POINTER_ATTRIBUTE_CONTEXT                    = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE                = 2,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS                = 6,
    CU_POINTER_ATTRIBUTE_BUFFER_ID                  = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED                 = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL             = 9,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR           = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE                 = 12,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15, // CUDA 11.1
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE             = 17, // CUDA 11.2
    CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR          = 19, // CUDA 11.6
};

enum CUmemorytype : int {
    CU_MEMORYTYPE_HOST   = 1,
    CU_MEMORYTYPE_DEVICE = 2,
};

enum CUmemRangeHandleType : int { // CUDA 11.7
    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
};
// CUDA 12.8
constexpr unsigned long long CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 1;

using CUmemGenericAllocationHandle = unsigned long long;
enum CUmemLocationType : int { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAllocationType : int { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType : int { CU_MEM_HANDLE_TYPE_NONE = 0 };
enum CUmemAccess_flags : int { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags : int {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
};

struct CUmemLocation {
    CUmemLocationType type;
    int id;
};

struct CUmemAllocationProp {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};

struct CUmemAccessDesc {
    CUmemLocation location;
    CUmemAccess_flags flags;
};

constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
enum CUstreamCaptureMode : int { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum CUstreamCaptureStatus : int { CU_STREAM_CAPTURE_STATUS_NONE = 0 };
// CU_STREAM_PER_THREAD, which is a macro in cuda.h.
inline CUstream stream_per_thread()
{
    return reinterpret_cast<CUstream>(2);
}

// CUDA 11.3
constexpr unsigned long long CU_GET_PROC_ADDRESS_LEGACY_STREAM             = 1;
constexpr unsigned long long CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2;

struct CUipcMemHandle {
    char reserved[64];
};

struct CUDA_MEM_ALLOC_NODE_PARAMS { // CUDA 11.4
    alignas(8) unsigned char pool_props[88];
    const void *access_descs;
    size_t access_desc_count;
    size_t bytesize;
    CUdeviceptr dptr;
};

enum CUgraphNodeType : int { CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10 }; // CUDA 11.4

struct CUgraphNodeParams { // CUDA 12.2
    CUgraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    };
    long long reserved2;
};

// NOLINTEND(readability-identifier-naming)

// The functions that the plug-in calls, each with its name in libcuda and its
// arguments. All return CUresult.
#define UCX_IB_DMABUF_CUDA_ENTRIES(_)                                          \
    _(init, cuInit, unsigned)                                                  \
    _(get_error_name, cuGetErrorName, CUresult, const char **)                 \
    _(device_get_count, cuDeviceGetCount, int *)                               \
    _(device_get, cuDeviceGet, CUdevice *, int)                                \
    _(device_get_attribute, cuDeviceGetAttribute, int *, CUdevice_attribute,   \
      CUdevice)                                                                \
    _(device_get_pci_bus_id, cuDeviceGetPCIBusId, char *, int, CUdevice)       \
    _(device_total_mem, cuDeviceTotalMem_v2, size_t *, CUdevice)               \
    _(primary_ctx_retain, cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)     \
    _(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, CUdevice)             \
    _(primary_ctx_get_state, cuDevicePrimaryCtxGetState, CUdevice, unsigned *, \
      int *)                                                                   \
    _(ctx_push_current, cuCtxPushCurrent_v2, CUcontext)                        \
    _(ctx_pop_current, cuCtxPopCurrent_v2, CUcontext *)                        \
    _(ctx_get_current, cuCtxGetCurrent, CUcontext *)                           \
    _(ctx_get_device, cuCtxGetDevice, CUdevice *)                              \
    _(pointer_get_attribute, cuPointerGetAttribute, void *,                    \
      CUpointer_attribute, CUdeviceptr)                                        \
    _(pointer_get_attributes, cuPointerGetAttributes, unsigned,                \
      CUpointer_attribute *, void **, CUdeviceptr)                             \
    _(pointer_set_attribute, cuPointerSetAttribute, const void *,              \
      CUpointer_attribute, CUdeviceptr)                                        \
    _(mem_get_address_range, cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, \
      CUdeviceptr)                                                             \
    _(mem_get_allocation_granularity, cuMemGetAllocationGranularity, size_t *, \
      const CUmemAllocationProp *, CUmemAllocationGranularity_flags)           \
    _(mem_address_reserve, cuMemAddressReserve, CUdeviceptr *, size_t, size_t, \
      CUdeviceptr, unsigned long long)                                         \
    _(mem_address_free, cuMemAddressFree, CUdeviceptr, size_t)                 \
    _(mem_create, cuMemCreate, CUmemGenericAllocationHandle *, size_t,         \
      const CUmemAllocationProp *, unsigned long long)                         \
    _(mem_release, cuMemRelease, CUmemGenericAllocationHandle)                 \
    _(mem_retain_allocation_handle, cuMemRetainAllocationHandle,               \
      CUmemGenericAllocationHandle *, void *)                                  \
    _(mem_map, cuMemMap, CUdeviceptr, size_t, size_t,                          \
      CUmemGenericAllocationHandle, unsigned long long)                        \
    _(mem_unmap, cuMemUnmap, CUdeviceptr, size_t)                              \
    _(mem_set_access, cuMemSetAccess, CUdeviceptr, size_t,                     \
      const CUmemAccessDesc *, size_t)                                         \
    _(memcpy_async, cuMemcpyAsync, CUdeviceptr, CUdeviceptr, size_t, CUstream) \
    _(stream_create, cuStreamCreate, CUstream *, unsigned)                     \
    _(stream_destroy, cuStreamDestroy_v2, CUstream)                            \
    _(stream_synchronize, cuStreamSynchronize, CUstream)                       \
    _(stream_is_capturing, cuStreamIsCapturing, CUstream,                      \
      CUstreamCaptureStatus *)                                                 \
    _(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode,         \
      CUstreamCaptureMode *)
// Of CUDA 11.7 and 12.0, respectively.
#define UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(_)                                    \
    _(get_handle_for_address_range, cuMemGetHandleForAddressRange, void *,     \
      CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long)           \
    _(ctx_get_id, cuCtxGetId, CUcontext, unsigned long long *)

template <class... Args>
CUresult missing_function(Args...)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

// The functions of a libcuda that was opened at run time: the plug-in must load
// without it. Each can be called before find(). The newer ones are nullptr if
// the driver lacks them.
struct driver_table {
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared
#define UCX_IB_DMABUF_MEMBER(_member, _name, ...)                              \
    CUresult (*_member)(__VA_ARGS__) = missing_function;
#define UCX_IB_DMABUF_NEWER(_member, _name, ...)                               \
    CUresult (*_member)(__VA_ARGS__) = nullptr;
    UCX_IB_DMABUF_CUDA_ENTRIES(UCX_IB_DMABUF_MEMBER)
    UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(UCX_IB_DMABUF_NEWER)
#undef UCX_IB_DMABUF_MEMBER
#undef UCX_IB_DMABUF_NEWER
    // NOLINTEND(bugprone-macro-parentheses)

    // Looks up all functions: void *symbol(const char *name). Returns whether
    // only newer ones are missing.
    template <class Symbol>
    bool find(Symbol symbol)
    {
        const auto set = [&](auto &member, const char *name) {
            void *const found = symbol(name);
            if (found != nullptr) {
                member =
                    reinterpret_cast<std::decay_t<decltype(member)>>(found);
            }
            return found != nullptr;
        };
        bool complete = true;
#define UCX_IB_DMABUF_FIND(_member, _name, ...)                                \
    complete &= set(_member, #_name);
#define UCX_IB_DMABUF_FIND_NEWER(_member, _name, ...) set(_member, #_name);
        UCX_IB_DMABUF_CUDA_ENTRIES(UCX_IB_DMABUF_FIND)
        UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(UCX_IB_DMABUF_FIND_NEWER)
#undef UCX_IB_DMABUF_FIND
#undef UCX_IB_DMABUF_FIND_NEWER
        return complete;
    }
};

// While it lives, this thread's driver calls invalidate no stream capture,
// neither its own nor, in the global mode, another thread's; otherwise they
// fail, too. Only the outermost one calls the driver. Do not use it around the
// program's own calls: they must keep the program's mode.
class relaxed_capture {
public:
    explicit relaxed_capture(const driver_table &cuda)
        : cuda_(cuda),
          exchanged_(!is_relaxed_ && (cuda.thread_exchange_capture_mode(
                                          &mode_) == CUDA_SUCCESS))
    {
        is_relaxed_ |= exchanged_;
    }
    ~relaxed_capture()
    {
        if (exchanged_) {
            cuda_.thread_exchange_capture_mode(&mode_);
            is_relaxed_ = false;
        }
    }
    relaxed_capture(const relaxed_capture &)            = delete;
    relaxed_capture &operator=(const relaxed_capture &) = delete;

private:
    static constinit inline thread_local bool is_relaxed_ = false;

    const driver_table &cuda_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // then the old
    const bool exchanged_;
};

} // namespace ucx_ib_dmabuf
