// SPDX-License-Identifier: BSD-3-Clause
//
// Compares our declarations of the CUDA driver API with NVIDIA's own header:
// compiling it is the test (cuda_api.tap). An older header lacks some of them.
#include <cuda.h>
#include <string_view>
#include <type_traits>
#include <ucm/cuda_api.h>

#include "same.h"

SAME(CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
     CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_FOUND,
     CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_NOT_SUPPORTED,
     CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
     CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, CU_POINTER_ATTRIBUTE_CONTEXT,
     CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
     CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
     CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
     CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
     CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_MEMORYTYPE_HOST,
     CU_MEMORYTYPE_DEVICE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
     CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED,
     CU_MEM_HANDLE_TYPE_NONE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
     CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_STREAM_NON_BLOCKING,
     CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_STATUS_NONE,
     CU_GET_PROC_ADDRESS_LEGACY_STREAM,
     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
     CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SAME_SIZE(CUresult, CUdevice, CUdeviceptr, CUcontext, CUstream, CUmemoryPool,
          CUdevice_attribute, CUpointer_attribute, CUmemorytype,
          CUmemRangeHandleType, CUmemGenericAllocationHandle, CUmemLocation);
SAME_AT(CUmemLocation, id);
SAME_SIZE(CUmemAllocationProp);
SAME_AT(CUmemAllocationProp, requestedHandleTypes, location,
        allocFlags.gpuDirectRDMACapable);
SAME_SIZE(CUmemAccessDesc);
SAME_AT(CUmemAccessDesc, flags);
SAME_SIZE(CUstreamCaptureMode, CUstreamCaptureStatus, CUipcMemHandle,
          CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_AT(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize, dptr);
#if CUDA_VERSION >= 12020
SAME_SIZE(CUgraphNodeParams);
SAME_AT(CUgraphNodeParams, type, alloc, alloc.bytesize, alloc.dptr);
#endif
#if CUDA_VERSION >= 12080
SAME(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
#endif

bool is_same_stream()
{
    return ours::stream_per_thread() == CU_STREAM_PER_THREAD;
}

// Passed in the same way; our own enumerations and structures need the same
// size only.
template <class A, class B>
constexpr bool passes_as()
{
    if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
        return passes_as<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
    } else if constexpr (!std::is_same_v<A, B> &&
                         ((std::is_enum_v<A> && std::is_enum_v<B>) ||
                          (std::is_class_v<A> && std::is_class_v<B>))) {
        return sizeof(A) == sizeof(B) &&
               std::is_const_v<A> == std::is_const_v<B>;
    } else {
        return std::is_same_v<A, B>;
    }
}

template <class A, class B>
constexpr bool is_same_call = false;
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) ==
         sizeof...(Bs)) constexpr bool is_same_call<A(As...), B(Bs...)> =
    (passes_as<A, B>() && ... && passes_as<As, Bs>());

// cuda.h declares its versions of a function by the name without the suffix.
namespace ucx_ib_dmabuf {
#define CHECK(member, name, ...)                                               \
    static_assert(is_same_call<CUresult(__VA_ARGS__), decltype(::name)>, #name);
UCX_IB_DMABUF_CUDA_ENTRIES(CHECK)
#if CUDA_VERSION >= 12000
UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(CHECK)
#endif
} // namespace ucx_ib_dmabuf

// We use the version that a program gets from this header.
#define NAME_(name)          #name
#define NAME(name)           NAME_(name)
#define NEWEST(unused, name) static_assert(is_ours(NAME(name)), NAME(name))
constexpr bool is_ours(std::string_view name)
{
    bool found = false;
#define FIND(member, ours, ...) found = found || name == #ours;
    UCX_IB_DMABUF_CUDA_ENTRIES(FIND)
    UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(FIND)
    return found;
}
EACH(NEWEST, , cuDeviceTotalMem, cuDevicePrimaryCtxRelease, cuCtxPushCurrent,
     cuCtxPopCurrent, cuCtxGetDevice, cuPointerGetAttributes,
     cuMemGetAddressRange, cuStreamCreate, cuStreamDestroy,
     cuMemGetHandleForAddressRange);
