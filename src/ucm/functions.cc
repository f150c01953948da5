// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/functions.h"

#include "ucm/allocate_calls.h"
#include "ucm/library_calls.h"
#include "ucm/release_calls.h"

namespace ucx_ib_dmabuf {
namespace {

using enum Streams;

constexpr bool DRIVER  = true;
constexpr bool RUNTIME = false;

using FreeDevice = FreePointer<DRIVER>;
using FreeHost   = FreePointer<DRIVER, UCS_MEMORY_TYPE_HOST>;

// First what releases memory, then what allocates it: UCX takes memory that it
// was not told of for host memory, and a size that is known need not be asked
// for. Not here, and why: cuMemRelease (mapped memory lives on until it is
// unmapped), cuMemHostUnregister and cuArrayDestroy (never device memory at an
// address).
const HookedFunction DRIVER_FUNCTIONS[] = {
    {"cuMemFree_v2", "cuMemFree", LEGACY, hook_kind<FreeDevice>},
    {"cuMemFree", nullptr, LEGACY, hook_kind<FreeDevice>},
    {"cuMemFreeHost", "cuMemFreeHost", LEGACY, hook_kind<FreeHost>},
    {"cuMemFreeAsync", "cuMemFreeAsync", LEGACY, hook_kind<FreeAsync>},
    {"cuMemFreeAsync_ptsz", "cuMemFreeAsync", PER_THREAD, hook_kind<FreeAsync>},
    {"cuMemUnmap", "cuMemUnmap", LEGACY, hook_kind<FreeRange>},
    {"cuMemAddressFree", "cuMemAddressFree", LEGACY, hook_kind<FreeRange>},
    {"cuIpcCloseMemHandle", "cuIpcCloseMemHandle", LEGACY,
     hook_kind<CloseIpc<DRIVER>>},
    {"cuMemPoolTrimTo", "cuMemPoolTrimTo", LEGACY, hook_kind<TrimPool>},
    {"cuMemPoolDestroy", "cuMemPoolDestroy", LEGACY, hook_kind<DestroyOwner>},
    {"cuModuleUnload", "cuModuleUnload", LEGACY, hook_kind<DestroyOwner>},
    {"cuLibraryUnload", "cuLibraryUnload", LEGACY, hook_kind<UnloadLibrary>},
    {"cuCtxDestroy_v2", "cuCtxDestroy", LEGACY, hook_kind<DestroyContext>},
    {"cuCtxDestroy", nullptr, LEGACY, hook_kind<DestroyContext>},
    {"cuCtxDetach", "cuCtxDetach", LEGACY, hook_kind<DestroyContext>},
    {"cuGreenCtxDestroy", "cuGreenCtxDestroy", LEGACY,
     hook_kind<DestroyContext>},
    {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", LEGACY,
     hook_kind<ResetPrimary>},
    {"cuDevicePrimaryCtxReset", nullptr, LEGACY, hook_kind<ResetPrimary>},
    {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", LEGACY,
     hook_kind<ReleasePrimary>},
    {"cuDevicePrimaryCtxRelease", nullptr, LEGACY, hook_kind<ReleasePrimary>},
    {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", LEGACY,
     hook_kind<RetainPrimary>},
    {"cuGraphExecDestroy", "cuGraphExecDestroy", LEGACY,
     hook_kind<DestroyGraph>},
    {"cuDeviceGraphMemTrim", "cuDeviceGraphMemTrim", LEGACY,
     hook_kind<TrimGraphs>},

    {"cuMemAlloc_v2", "cuMemAlloc", LEGACY, hook_kind<Allocate<>>},
    {"cuMemAllocManaged", "cuMemAllocManaged", LEGACY,
     hook_kind<Allocate<unsigned>>},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", LEGACY, hook_kind<AllocatePitch>},
    {"cuMemAllocAsync", "cuMemAllocAsync", LEGACY,
     hook_kind<AllocateAsync<false>>},
    {"cuMemAllocAsync_ptsz", "cuMemAllocAsync", PER_THREAD,
     hook_kind<AllocateAsync<true>>},
    {"cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", LEGACY,
     hook_kind<AllocateFromPool<false>>},
    {"cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", PER_THREAD,
     hook_kind<AllocateFromPool<true>>},
    {"cuMemMap", "cuMemMap", LEGACY, hook_kind<Map>},
    {"cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle", LEGACY, hook_kind<OpenIpc>},
    {"cuModuleGetGlobal_v2", "cuModuleGetGlobal", LEGACY, hook_kind<GetGlobal>},
    {"cuLibraryGetModule", "cuLibraryGetModule", LEGACY,
     hook_kind<GetLibraryModule>},
    {"cuLibraryGetGlobal", "cuLibraryGetGlobal", LEGACY, hook_kind<GetGlobal>},
    {"cuLibraryGetManaged", "cuLibraryGetManaged", LEGACY,
     hook_kind<GetGlobal>},
    {"cuMemPoolImportPointer", "cuMemPoolImportPointer", LEGACY,
     hook_kind<MapHandle>},
    {"cuExternalMemoryGetMappedBuffer", "cuExternalMemoryGetMappedBuffer",
     LEGACY, hook_kind<MapHandle>},
    {"cuGraphAddMemAllocNode", "cuGraphAddMemAllocNode", LEGACY,
     hook_kind<AddAllocNode>},
#if CUDA_VERSION >= 12020
    {"cuGraphAddNode_v2", nullptr, LEGACY, hook_kind<AddNode<const void *>>},
    {"cuGraphAddNode", nullptr, LEGACY, hook_kind<AddNode<>>},
#endif
};

// The runtime calls the driver, where the same memory is announced. Whether it
// does so through public entry points for each of these is NVIDIA's secret, so
// they are hooked too; a hook inside a hook keeps quiet.
const HookedFunction RUNTIME_FUNCTIONS[] = {
    {"cudaFree", nullptr, LEGACY, hook_kind<FreePointer<RUNTIME>>},
    {"cudaFreeHost", nullptr, LEGACY,
     hook_kind<FreePointer<RUNTIME, UCS_MEMORY_TYPE_HOST>>},
    {"cudaFreeAsync", nullptr, LEGACY, hook_kind<FreeAsync>},
    {"cudaFreeAsync_ptsz", nullptr, PER_THREAD, hook_kind<FreeAsync>},
    {"cudaIpcCloseMemHandle", nullptr, LEGACY, hook_kind<CloseIpc<RUNTIME>>},
    {"cudaMemPoolTrimTo", nullptr, LEGACY, hook_kind<TrimPool>},
    {"cudaMemPoolDestroy", nullptr, LEGACY, hook_kind<DestroyOwner>},
    {"cudaDeviceReset", nullptr, LEGACY, hook_kind<ResetDevice>},
    {"cudaThreadExit", nullptr, LEGACY, hook_kind<ResetDevice>},
};

} // namespace

std::span<const HookedFunction> driver_functions()
{
    return DRIVER_FUNCTIONS;
}

std::span<const HookedFunction> runtime_functions()
{
    return RUNTIME_FUNCTIONS;
}

} // namespace ucx_ib_dmabuf
