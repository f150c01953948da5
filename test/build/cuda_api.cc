// SPDX-License-Identifier: BSD-3-Clause
//
// Compares our declarations of the CUDA driver API with NVIDIA's own header:
// compiling it is the test (cuda_api.tap). An older header lacks some of them.
#include <cuda.h>
#include <string_view>
#include <type_traits>
#include <ucm/cuda_api.h>

namespace ours = ucx_ib_dmabuf;

#define SAME(name) static_assert(int64_t(ours::name) == int64_t(::name))
#define SIZE(type)                                                             \
    static_assert(sizeof(ours::type) == sizeof(::type) &&                      \
                  alignof(ours::type) == alignof(::type))
#define AT(type, member)                                                       \
    static_assert(offsetof(ours::type, member) == offsetof(::type, member) &&  \
                  sizeof(ours::type::member) == sizeof(::type::member))

SAME(CUDA_SUCCESS);
SAME(CUDA_ERROR_INVALID_VALUE);
SAME(CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_ERROR_NO_DEVICE);
SAME(CUDA_ERROR_INVALID_CONTEXT);
SAME(CUDA_ERROR_NOT_FOUND);
SAME(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CUDA_ERROR_NOT_SUPPORTED);
SAME(CUDA_ERROR_SYSTEM_NOT_READY);
SAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
SAME(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME(CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
SAME(CU_MEMORYTYPE_DEVICE);
SAME(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_MEM_HANDLE_TYPE_NONE);
SAME(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(CU_STREAM_NON_BLOCKING);
SAME(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SIZE(CUresult);
SIZE(CUdevice);
SIZE(CUdeviceptr);
SIZE(CUcontext);
SIZE(CUstream);
SIZE(CUmemoryPool);
SIZE(CUdevice_attribute);
SIZE(CUpointer_attribute);
SIZE(CUmemorytype);
SIZE(CUmemRangeHandleType);
SIZE(CUmemGenericAllocationHandle);
SIZE(CUmemLocation);
AT(CUmemLocation, id);
SIZE(CUmemAllocationProp);
AT(CUmemAllocationProp, requestedHandleTypes);
AT(CUmemAllocationProp, location);
AT(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SIZE(CUmemAccessDesc);
AT(CUmemAccessDesc, flags);
SIZE(CUstreamCaptureMode);
SIZE(CUstreamCaptureStatus);
SIZE(CUipcMemHandle);
SIZE(CUDA_MEM_ALLOC_NODE_PARAMS);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
#if CUDA_VERSION >= 12020
SIZE(CUgraphNodeParams);
AT(CUgraphNodeParams, type);
AT(CUgraphNodeParams, alloc);
AT(CUgraphNodeParams, alloc.bytesize);
AT(CUgraphNodeParams, alloc.dptr);
#endif
#if CUDA_VERSION >= 12080
SAME(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
#endif

bool is_same_stream()
{
    return ours::stream_per_thread() == CU_STREAM_PER_THREAD;
}

// Passed in the same way; our own enumerations need the same size only.
template <class A, class B>
constexpr bool passes_as = std::is_same_v<A, B>;
template <class A, class B>
requires(std::is_enum_v<A> &&std::is_enum_v<B>) constexpr bool passes_as<A, B> =
    sizeof(A) == sizeof(B);
template <class A, class B>
requires(!std::is_same_v<A, B> && std::is_class_v<A> && std::is_class_v<B> &&
         std::is_const_v<A> ==
             std::is_const_v<B>) constexpr bool passes_as<A, B> = sizeof(A) ==
                                                                  sizeof(B);
template <class A, class B>
constexpr bool passes_as<A *, B *> = passes_as<A, B>;

template <class A, class B>
constexpr bool is_same_call = false;
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) ==
         sizeof...(Bs)) constexpr bool is_same_call<A(As...), B(Bs...)> =
    (passes_as<A, B> && ... && passes_as<As, Bs>);

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
#define NAME_(name) #name
#define NAME(name)  NAME_(name)
#define NEWEST(name)                                                           \
    static_assert(std::string_view(NAME(name)).starts_with(#name) &&           \
                  is_ours(NAME(name)))
constexpr bool is_ours(std::string_view name)
{
    bool found = false;
#define FIND(member, ours, ...) found = found || name == #ours;
    UCX_IB_DMABUF_CUDA_ENTRIES(FIND)
    UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(FIND)
    return found;
}
NEWEST(cuDeviceTotalMem);
NEWEST(cuDevicePrimaryCtxRelease);
NEWEST(cuCtxPushCurrent);
NEWEST(cuCtxPopCurrent);
NEWEST(cuCtxGetDevice);
NEWEST(cuPointerGetAttributes);
NEWEST(cuMemGetAddressRange);
NEWEST(cuMemcpyDtoHAsync);
NEWEST(cuMemcpyHtoDAsync);
NEWEST(cuStreamCreate);
NEWEST(cuStreamDestroy);
NEWEST(cuMemGetHandleForAddressRange);
