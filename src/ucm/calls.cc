// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "cuda_events.h"
#include <cuda.h>

// What each hooked call releases or brings. Handles and pointers are passed as
// they are, so that the driver API and the runtime API look alike.
namespace ucx_ib_dmabuf {
namespace {

// The argument is set before the handler, and both once.
std::atomic<reclaim_handler> reclaimer{nullptr};
void *reclaimer_arg;

} // namespace

void cuda_events_on_out_of_memory(reclaim_handler handler, void *arg)
{
    reclaimer_arg = arg;
    reclaimer.store(handler);
}

namespace ucm {
namespace {

// ---- Releases: announced before the driver is called.

template <ucs_memory_type_t type>
void free_pointer(release &going, uint64_t address)
{
    going.pointer(address, type);
}

// Announced when called, as the memory's user is done.
void free_async(release &going, uint64_t address, void *)
{
    going.to_pool(address);
}

void free_range(release &going, uint64_t address, size_t size)
{
    going.range(address, size);
}

// Only the last of many takes the memory away.
void close_ipc(release &going, uint64_t address)
{
    going.opening(address);
}

// What is left of a pool's, a module's or a library's memory goes.
void destroy_owner(release &going, uint64_t owner)
{
    going.owned(owner);
}

void trim_pool(release &going, uint64_t pool, size_t)
{
    going.owned(pool);
}

template <class... Args>
void destroy(release &going, Args...)
{
    going.everything();
}

template <class... Args>
void destroy_graph(release &going, Args...)
{
    going.graphs();
}

template <auto announce, bool refused, class = decltype(+announce)>
struct releasing;

template <auto announce, bool refused, class... Args>
struct releasing<announce, refused, void (*)(release &, Args...)> {
    using signature               = cuda_result(Args...);
    static constexpr bool refuses = refused;

    static cuda_result run(signature *next, Args... args)
    {
        release going;
        announce(going, args...);
        return going.through([&] { return next(args...); });
    }
};

// ---- What brings memory: announced after the driver has been called.

void allocate(uint64_t *address, size_t size)
{
    announce_allocation(*address, size);
}

void allocate_managed(uint64_t *address, size_t size, unsigned)
{
    announce_allocation(*address, size);
}

void allocate_pitch(uint64_t *address, size_t *pitch, size_t, size_t height,
                    unsigned)
{
    announce_allocation(*address, *pitch * height);
}

// In a capture it is graph memory. The default stream is another one in the
// _ptsz variants.
template <bool per_thread>
void allocate_from_pool(uint64_t *address, size_t size, uint64_t pool,
                        void *stream)
{
    const auto capturing = driver.is_capturing.load();
    int status           = 0; // CU_STREAM_CAPTURE_STATUS_NONE
    if (per_thread && (stream == nullptr)) {
        stream = CU_STREAM_PER_THREAD;
    }
    if ((capturing != nullptr) && (capturing(stream, &status) == cuda_ok) &&
        (status != 0)) {
        note_graph_memory();
    }
    announce_allocation(*address, size, pool);
}

template <bool per_thread>
void allocate_async(uint64_t *address, size_t size, void *stream)
{
    allocate_from_pool<per_thread>(address, size, 0, stream);
}

void map(uint64_t address, size_t size, size_t, uint64_t, uint64_t)
{
    announce_allocation(address, size, 0, kept::unlisted);
}

void open_ipc(uint64_t *address, CUipcMemHandle, unsigned)
{
    announce_allocation(*address, 0);
}

// Memory of a pool or of another API, by a description.
void import(uint64_t *address, uint64_t, void *)
{
    announce_allocation(*address, 0);
}

// Memory that goes with its owner.
void get_global(uint64_t *address, size_t *size, uint64_t owner, const char *)
{
    if (address != nullptr) {
        announce_allocation(*address, (size != nullptr) ? *size : 0,
                            owner_of_module(owner), kept::owned);
    }
}

// Another name for a library's variables.
void get_library_module(uint64_t *module, uint64_t library)
{
    note_module(*module, library);
}

template <class Params>
void announce_graph_memory(const Params &params)
{
    note_graph_memory();
    announce_allocation(params.dptr, params.bytesize);
}

void add_alloc_node(void *, void *, const void *, size_t,
                    CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    announce_graph_memory(*params);
}

#if CUDA_VERSION >= 12020
template <class... Edges>
void add_node(void *, void *, const void *, Edges..., size_t,
              CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        announce_graph_memory(params->alloc);
    }
}
#endif

// Memory without an address of its own.
template <class... Args>
void create(Args...)
{
}

// If the driver has no memory left it is asked once more where the plug-in
// could give some up.
template <auto announce, bool before_ucx, class = decltype(+announce)>
struct allocating;

template <auto announce, bool before_ucx, class... Args>
struct allocating<announce, before_ucx, void (*)(Args...)> {
    using signature               = cuda_result(Args...);
    static constexpr bool refuses = false;

    static cuda_result run(signature *next, Args... args)
    {
        const bool outermost = this_thread.allocations++ == 0;
        cuda_result result   = next(args...);
        if (outermost && (result == cuda_out_of_memory)) {
            const reclaim_handler reclaim = reclaimer.load();
            if ((reclaim != nullptr) && reclaim(reclaimer_arg)) {
                result = next(args...);
            }
        }
        --this_thread.allocations;
        if (!before_ucx && outermost && (result == cuda_ok)) {
            announce(args...);
        }
        return result;
    }
};

// ---- Primary contexts.

// Devices whose primary context was created under our eyes: all of its memory
// is known.
std::atomic<uint64_t> known_primaries{0};

uint64_t device_bit(int device)
{
    return ((device >= 0) && (device < 64)) ? uint64_t{1} << device : 0;
}

bool primary_is_active(int device, bool unknown)
{
    const auto state = driver.primary_state.load();
    const relaxed_capture relaxed;
    unsigned flags;
    int active = 0;
    return ((state == nullptr) || (state(device, &flags, &active) != cuda_ok))
               ? unknown
               : (active != 0);
}

// How each runtime begins.
struct retain_primary {
    using signature               = cuda_result(void *, int);
    static constexpr bool refuses = false;

    static cuda_result run(signature *next, void *context, int device)
    {
        const bool was_active    = primary_is_active(device, true);
        const cuda_result result = next(context, device);
        if ((result == cuda_ok) && !was_active) {
            known_primaries.fetch_or(device_bit(device));
        }
        runtimes_may_be_new.store(true);
        return result;
    }
};

// Only the last of many releases destroys the context, and nobody can tell
// which that will be: announced afterwards. By its ranges if all are known:
// libraries retain and release a context that nobody else uses again and again,
// which must not empty the caches each time.
struct release_primary {
    using signature               = cuda_result(int);
    static constexpr bool refuses = true;

    static cuda_result run(signature *next, int device)
    {
        release going;
        const cuda_result result = going.through([&] { return next(device); });
        if ((result == cuda_ok) && !primary_is_active(device, false)) {
            const uint64_t bit = device_bit(device);
            if ((known_primaries.fetch_and(~bit) & bit) == 0) {
                announce_everything();
            }
            announce_vanished();
        }
        return result;
    }
};

// ---- The functions.

constexpr bool refuses = true;

template <auto announce, bool refused = false>
constexpr hooked_function releases(const char *symbol)
{
    return {symbol, kind_of<releasing<announce, refused>>};
}

template <auto announce>
constexpr hooked_function allocates(const char *symbol)
{
    return {symbol, kind_of<allocating<announce, false>>,
            kind_of<allocating<announce, true>>};
}

template <class... Args>
constexpr hooked_function creates(const char *symbol)
{
    return {symbol, kind_of<allocating<create<Args...>, false>>, nullptr, true};
}

constexpr auto free_device = free_pointer<UCS_MEMORY_TYPE_CUDA>;
constexpr auto free_host   = free_pointer<UCS_MEMORY_TYPE_HOST>;
constexpr auto end_context = destroy<void *>;
constexpr auto end_device  = destroy<int>;

// First what releases memory, then what allocates it: UCX takes memory that it
// was not told of for host memory, and a size that is known need not be asked
// for. Not here, and why: cuMemRelease (mapped memory lives on until it is
// unmapped), cuMemHostUnregister and cuArrayDestroy (never device memory at an
// address).
constexpr hooked_function of_driver[] = {
    releases<free_device, refuses>("cuMemFree_v2"),
    releases<free_device, refuses>("cuMemFree"),
    releases<free_host, refuses>("cuMemFreeHost"),
    releases<free_async>("cuMemFreeAsync"),
    releases<free_async>("cuMemFreeAsync_ptsz"),
    releases<free_range, refuses>("cuMemUnmap"),
    releases<free_range, refuses>("cuMemAddressFree"),
    releases<close_ipc, refuses>("cuIpcCloseMemHandle"),
    releases<trim_pool>("cuMemPoolTrimTo"),
    releases<destroy_owner>("cuMemPoolDestroy"),
    releases<destroy_owner>("cuModuleUnload"),
    releases<destroy_owner>("cuLibraryUnload"),
    releases<end_context>("cuCtxDestroy_v2"),
    releases<end_context>("cuCtxDestroy"),
    releases<end_context>("cuCtxDetach"),
    releases<end_context>("cuGreenCtxDestroy"),
    // The probe must not enter these two: too much would go.
    releases<end_device>("cuDevicePrimaryCtxReset_v2"),
    releases<end_device>("cuDevicePrimaryCtxReset"),
    {"cuDevicePrimaryCtxRelease_v2", kind_of<release_primary>},
    {"cuDevicePrimaryCtxRelease", kind_of<release_primary>},
    {"cuDevicePrimaryCtxRetain", kind_of<retain_primary>},
    releases<destroy_graph<void *>>("cuGraphExecDestroy"),
    releases<destroy_graph<int>, refuses>("cuDeviceGraphMemTrim"),

    allocates<allocate>("cuMemAlloc_v2"),
    allocates<allocate_managed>("cuMemAllocManaged"),
    allocates<allocate_pitch>("cuMemAllocPitch_v2"),
    allocates<allocate_async<false>>("cuMemAllocAsync"),
    allocates<allocate_async<true>>("cuMemAllocAsync_ptsz"),
    allocates<allocate_from_pool<false>>("cuMemAllocFromPoolAsync"),
    allocates<allocate_from_pool<true>>("cuMemAllocFromPoolAsync_ptsz"),
    allocates<map>("cuMemMap"),
    allocates<open_ipc>("cuIpcOpenMemHandle_v2"),
    allocates<get_global>("cuModuleGetGlobal_v2"),
    allocates<get_library_module>("cuLibraryGetModule"),
    allocates<get_global>("cuLibraryGetGlobal"),
    allocates<get_global>("cuLibraryGetManaged"),
    allocates<import>("cuMemPoolImportPointer"),
    allocates<import>("cuExternalMemoryGetMappedBuffer"),
    allocates<add_alloc_node>("cuGraphAddMemAllocNode"),
#if CUDA_VERSION >= 12020
    {"cuGraphAddNode_v2", kind_of<allocating<add_node<const void *>, false>>,
     nullptr, false, true},
    {"cuGraphAddNode", kind_of<allocating<add_node<>, false>>, nullptr, false,
     true},
#endif
    creates<uint64_t *, size_t, const void *, uint64_t>("cuMemCreate"),
    creates<void *, const void *>("cuArrayCreate_v2"),
    creates<void *, const void *>("cuArray3DCreate_v2"),
    creates<void *, const void *, unsigned>("cuMipmappedArrayCreate"),
};

// The runtime calls the driver, where the same memory is announced. Whether it
// does so through public entry points for each of these is NVIDIA's secret, so
// they are hooked too; a hook inside a hook keeps quiet.
constexpr hooked_function of_runtime[] = {
    releases<free_device>("cudaFree"),
    releases<free_host>("cudaFreeHost"),
    releases<free_async>("cudaFreeAsync"),
    releases<free_async>("cudaFreeAsync_ptsz"),
    releases<close_ipc>("cudaIpcCloseMemHandle"),
    releases<trim_pool>("cudaMemPoolTrimTo"),
    releases<destroy_owner>("cudaMemPoolDestroy"),
    releases<destroy<>>("cudaDeviceReset"),
    releases<destroy<>>("cudaThreadExit"),
};

} // namespace

std::span<const hooked_function> driver_functions()
{
    return of_driver;
}

std::span<const hooked_function> runtime_functions()
{
    return of_runtime;
}

} // namespace ucm
} // namespace ucx_ib_dmabuf
