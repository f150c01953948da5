// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "cuda_api.h"
#include "cuda_events.h"

// The announcements of each hooked call. Handles and pointers are passed on
// unchanged, so that the driver API and the runtime API look alike.
namespace ucx_ib_dmabuf {
namespace {

// Set once: the argument before the handler.
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

// Does nothing for an allocation by the handler itself.
bool reclaim()
{
    const reclaim_handler handler = reclaimer.load();
    if ((handler == nullptr) || std::exchange(this_thread.reclaiming, true)) {
        return false;
    }
    const bool reclaimed   = handler(reclaimer_arg);
    this_thread.reclaiming = false;
    return reclaimed;
}

// Announces a release before it calls the driver. `Extra` are arguments that do
// not identify the memory.
template <class Member, Member announce, class... Extra>
struct releasing;

template <class... Args, void (release::*announce)(Args...), class... Extra>
struct releasing<void (release::*)(Args...), announce, Extra...> {
    using signature = cuda_result(Args..., Extra...);

    static cuda_result run(signature *next, Args... args, Extra... extra)
    {
        release going;
        (going.*announce)(args...);
        return going.through([&] { return next(args..., extra...); });
    }
};

// Announces new memory after it has called the driver. If the driver is out of
// memory, and the plug-in can free some, calls the driver once more.
template <class Function, Function announce, bool before_ucx, class... Extra>
struct allocating;

template <class... Args, void (*announce)(Args...), bool before_ucx,
          class... Extra>
struct allocating<void (*)(Args...), announce, before_ucx, Extra...> {
    using signature = cuda_result(Args..., Extra...);

    static cuda_result run(signature *next, Args... args, Extra... extra)
    {
        cuda_result result = next(args..., extra...);
        if ((result == cuda_out_of_memory) && reclaim()) {
            result = next(args..., extra...);
        }
        if (result == cuda_ok) {
            this_thread.told = before_ucx;
            announce(args...);
        }
        return result;
    }
};

void allocate(uint64_t *address, size_t size)
{
    announce_allocation(*address, size);
}

void allocate_pitch(uint64_t *address, size_t *pitch, size_t, size_t height)
{
    announce_allocation(*address, *pitch * height);
}

// Memory from a capture is graph memory.
template <bool per_thread>
void allocate_from_pool(uint64_t *address, size_t size, uint64_t pool,
                        void *stream)
{
    if (is_capturing(stream, per_thread)) {
        note_graph_memory();
    }
    announce_allocation(*address, size, pool);
}

template <bool per_thread>
void allocate_async(uint64_t *address, size_t size, void *stream)
{
    allocate_from_pool<per_thread>(address, size, unknown_pool, stream);
}

void map(uint64_t address, size_t size)
{
    announce_allocation(address, size, 0, kept::unlisted);
}

// Memory of another process.
void open(uint64_t *address)
{
    announce_allocation(*address, 0, 0, kept::owned);
}

// Memory of another API.
void open_external(uint64_t *address)
{
    announce_allocation(*address, 0, unknown_pool);
}

// Variables, which are freed with their module or library.
void get_global(uint64_t *address, size_t *size, uint64_t owner)
{
    if (address != nullptr) {
        announce_allocation(*address, (size != nullptr) ? *size : 0,
                            owner_of_module(owner), kept::owned);
    }
}

// The module gives access to the library's variables.
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

template <class... Edges>
void add_node(void *, void *, const void *, Edges..., size_t,
              CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        announce_graph_memory(params->alloc);
    }
}

// Memory without an address: nothing to announce.
void create() {}

// ---- Primary contexts.

// Devices with a primary context created after the hooks: all of its memory is
// known.
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

// The first call of each runtime.
struct retain_primary {
    using signature = cuda_result(void *, int);

    static cuda_result run(signature *next, void *context, int device)
    {
        // Runs for each chunk that UCX copies: try the known bit first.
        const uint64_t bit = device_bit(device);
        const bool decided = ((known_primaries.load() & bit) != 0) ||
                             primary_is_active(device, true);
        const cuda_result result = next(context, device);
        if ((result == cuda_ok) && !decided) {
            known_primaries.fetch_or(bit);
        }
        runtimes_may_be_new.store(true);
        return result;
    }
};

// Announces afterwards: only the last of many releases destroys the context,
// and no hook can predict which. Announces single ranges if all are known:
// libraries may retain and release an otherwise unused context repeatedly,
// which must not empty the caches each time.
struct release_primary {
    using signature = cuda_result(int);

    static cuda_result run(signature *next, int device)
    {
        const cuda_result result = next(device);
        if ((result == cuda_ok) && !primary_is_active(device, false)) {
            announce_primaries(device_bit(device));
        }
        return result;
    }

    // Announces that these devices' primary contexts were destroyed.
    static void announce_primaries(uint64_t devices)
    {
        if ((known_primaries.fetch_and(~devices) & devices) != devices) {
            announce_everything();
        }
        announce_vanished();
    }
};

// A green context uses its device's primary context, as others may. Only a
// primary context that is inactive afterwards shows the device.
struct destroy_green_context {
    using signature = cuda_result(void *);

    static cuda_result run(signature *next, void *context)
    {
        const uint64_t before    = active_primaries();
        const cuda_result result = next(context);
        const uint64_t gone      = before & ~active_primaries();
        if (gone != 0) {
            release_primary::announce_primaries(gone);
        }
        return result;
    }

    static uint64_t active_primaries()
    {
        uint64_t active = 0;
        for (int device = 0; device_bit(device) != 0; ++device) {
            if (primary_is_active(device, false)) {
                active |= device_bit(device);
            }
        }
        return active;
    }
};

// ---- The functions.

template <auto announce, class... Extra>
constexpr hooked_function releases(const char *symbol, int since = 0)
{
    return {symbol, kind_of<releasing<decltype(announce), announce, Extra...>>,
            since};
}

template <auto announce, bool before_ucx, class... Extra>
constexpr auto kind_of_allocating =
    kind_of<allocating<decltype(+announce), announce, before_ucx, Extra...>>;

template <auto announce, class... Extra>
constexpr hooked_function allocates(const char *symbol, int since)
{
    return {symbol, kind_of_allocating<announce, false, Extra...>, since,
            kind_of_allocating<announce, true, Extra...>};
}

template <class... Args>
constexpr hooked_function creates(const char *symbol, int since)
{
    return {symbol, kind_of_allocating<create, false, Args...>, since, nullptr,
            true};
}

// Functions that release memory, then functions that allocate it. UCX treats
// unannounced memory as host memory, and a known size saves a query. Not
// hooked: cuMemRelease (mapped memory lives until it is unmapped),
// cuMemHostUnregister and cuArrayDestroy (never device memory at an address).
constexpr hooked_function of_driver[] = {
    releases<&release::pointer>("cuMemFree_v2", 3020),
    releases<&release::pointer>("cuMemFree", 2000),
    releases<&release::host_pointer>("cuMemFreeHost", 2000),
    releases<&release::to_pool<false>>("cuMemFreeAsync", 11020),
    releases<&release::to_pool<true>>("cuMemFreeAsync_ptsz", 11020),
    releases<&release::range>("cuMemUnmap", 10020),
    releases<&release::range>("cuMemAddressFree", 10020),
    releases<&release::opening>("cuIpcCloseMemHandle", 4010),
    releases<&release::pool, size_t>("cuMemPoolTrimTo", 11020),
    releases<&release::pool>("cuMemPoolDestroy", 11020),
    releases<&release::module>("cuModuleUnload", 2000),
    releases<&release::module>("cuLibraryUnload", 12000),
    releases<&release::everything, void *>("cuCtxDestroy_v2", 4000),
    releases<&release::everything, void *>("cuCtxDestroy", 2000),
    releases<&release::everything, void *>("cuCtxDetach", 2000),
    {"cuGreenCtxDestroy", kind_of<destroy_green_context>, 12040},
    releases<&release::everything, int>("cuDevicePrimaryCtxReset_v2", 11000),
    releases<&release::everything, int>("cuDevicePrimaryCtxReset", 7000),
    {"cuDevicePrimaryCtxRelease_v2", kind_of<release_primary>, 11000},
    {"cuDevicePrimaryCtxRelease", kind_of<release_primary>, 7000},
    {"cuDevicePrimaryCtxRetain", kind_of<retain_primary>, 7000},
    releases<&release::graphs, void *>("cuGraphExecDestroy", 10000),
    releases<&release::graphs, int>("cuDeviceGraphMemTrim", 11040),

    allocates<allocate>("cuMemAlloc_v2", 3020),
    allocates<allocate, unsigned>("cuMemAllocManaged", 6000),
    allocates<allocate_pitch, unsigned>("cuMemAllocPitch_v2", 3020),
    allocates<allocate_async<false>>("cuMemAllocAsync", 11020),
    allocates<allocate_async<true>>("cuMemAllocAsync_ptsz", 11020),
    allocates<allocate_from_pool<false>>("cuMemAllocFromPoolAsync", 11020),
    allocates<allocate_from_pool<true>>("cuMemAllocFromPoolAsync_ptsz", 11020),
    allocates<map, size_t, uint64_t, uint64_t>("cuMemMap", 10020),
    allocates<open, CUipcMemHandle, unsigned>("cuIpcOpenMemHandle_v2", 11000),
    allocates<open, CUipcMemHandle, unsigned>("cuIpcOpenMemHandle", 4010),
    allocates<get_global, const char *>("cuModuleGetGlobal_v2", 3020),
    allocates<get_library_module>("cuLibraryGetModule", 12000),
    allocates<get_global, const char *>("cuLibraryGetGlobal", 12000),
    allocates<get_global, const char *>("cuLibraryGetManaged", 12000),
    allocates<open, uint64_t, void *>("cuMemPoolImportPointer", 11020),
    allocates<open_external, uint64_t, void *>(
        "cuExternalMemoryGetMappedBuffer", 10000),
    allocates<add_alloc_node>("cuGraphAddMemAllocNode", 11040),
    {"cuGraphAddNode_v3", kind_of_allocating<add_node<const void *>, false>,
     13040},
    {"cuGraphAddNode_v2", kind_of_allocating<add_node<const void *>, false>,
     12030},
    {"cuGraphAddNode", kind_of_allocating<add_node<>, false>, 12020},
    creates<uint64_t *, size_t, const void *, uint64_t>("cuMemCreate", 10020),
    creates<void *, const void *>("cuArrayCreate_v2", 3020),
    creates<void *, const void *>("cuArray3DCreate_v2", 3020),
    creates<void *, const void *, unsigned>("cuMipmappedArrayCreate", 5000),
};

// A runtime implements these by driver functions, and UCX, too, relies on the
// hooks of those. Only hooked if a driver function is not.
constexpr hooked_function of_runtime[] = {
    releases<&release::pointer>("cudaFree"),
    releases<&release::host_pointer>("cudaFreeHost"),
    releases<&release::to_pool<false>>("cudaFreeAsync"),
    releases<&release::to_pool<true>>("cudaFreeAsync_ptsz"),
    releases<&release::opening>("cudaIpcCloseMemHandle"),
    releases<&release::pool, size_t>("cudaMemPoolTrimTo"),
    releases<&release::pool>("cudaMemPoolDestroy"),
    releases<&release::everything>("cudaDeviceReset"),
    releases<&release::everything>("cudaThreadExit"),
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
