// SPDX-License-Identifier: BSD-3-Clause
#include "hook_table.h"
#include "announce.h"
#include <utility>

// The hooked functions of CUDA's driver, and what each one announces.
namespace ucx_ib_dmabuf::ucm {
namespace {

template <class Call, class Signature>
struct hooks_of;

template <class Call, class... Args>
struct hooks_of<Call, cuda_result(Args...)> {
    using function = cuda_result(Args...);

    template <size_t slot>
    static inline std::atomic<void *> original{nullptr};

    template <size_t slot>
    static cuda_result hook(Args... args)
    {
        const auto next = reinterpret_cast<function *>(original<slot>.load());
        return Call::run(next, args...);
    }

    template <size_t... slot>
    static hook_kind make(std::index_sequence<slot...>)
    {
        return {{{reinterpret_cast<void *>(&hook<slot>), &original<slot>}...}};
    }
};

// Returns the kind of a struct with
//     using signature = cuda_result(...);
//     static cuda_result run(signature *next, ...);
template <class Call>
hook_kind &kind_of()
{
    static hook_kind kind = hooks_of<Call, typename Call::signature>::make(
        std::make_index_sequence<hook_kind::max_slots>());
    return kind;
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
template <class Function, Function announce, class... Extra>
struct allocating;

template <class... Args, void (*announce)(Args...), class... Extra>
struct allocating<void (*)(Args...), announce, Extra...> {
    using signature = cuda_result(Args..., Extra...);

    static cuda_result run(signature *next, Args... args, Extra... extra)
    {
        this_thread.ucx_announced = 0;
        this_thread.newest        = 0;
        cuda_result result        = next(args..., extra...);
        if ((result == CUDA_ERROR_OUT_OF_MEMORY) && reclaim()) {
            result = next(args..., extra...);
        }
        if (result == CUDA_SUCCESS) {
            announce(args...);
        }
        return result;
    }
};

void allocate_managed(uint64_t *address, size_t size)
{
    announce_allocation(*address, size);
}

// UCX may announce it again, at the end of the runtime's call.
void allocate(uint64_t *address, size_t size)
{
    announce_allocation(*address, size);
    this_thread.newest = *address;
    note_allocated(*address, size);
}

void allocate_pitch(uint64_t *address, size_t *pitch, size_t, size_t height)
{
    allocate(address, *pitch * height);
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
    announce_allocation(address, size, 0, listing::none);
}

// Memory of another process.
void open(uint64_t *address)
{
    announce_allocation(*address, 0, 0, listing::with_owner);
}

// Memory of another API.
void open_external(uint64_t *address)
{
    announce_allocation(*address, 0, unknown_pool);
}

// Variables, which are freed with their module or library.
void get_global(uint64_t *address, size_t *size, uint64_t module)
{
    if (address != nullptr) {
        const uint64_t library = modules().look_up(module).owner;
        announce_allocation(*address, (size != nullptr) ? *size : 0,
                            (library != 0) ? library : module,
                            listing::with_owner);
    }
}

// The module gives access to the library's variables.
void get_library_module(uint64_t *module, uint64_t library)
{
    note_range(modules(), {*module, 1, library, state::owned});
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

constexpr int max_devices = 64;

// Devices whose first primary context may be older than the hooks: not all of
// its memory is known.
std::atomic<uint64_t> older_primaries{~uint64_t{0}};

uint64_t bit_of(int device)
{
    return (device < 0) || (device >= max_devices) ? 0 : uint64_t{1} << device;
}

cuda_result query_primary(int device, bool *is_active)
{
    unsigned flags;
    int active = 0;
    const cuda_result result =
        driver.primary_ctx_get_state(device, &flags, &active);
    *is_active = active != 0;
    return result;
}

// Announces that these devices' primary contexts were destroyed, by single
// ranges if all are known. Libraries may retain and release an otherwise unused
// context repeatedly, which must not empty the caches each time.
void announce_primaries(uint64_t devices)
{
    // The next contexts are newer.
    if ((devices == 0) ||
        ((older_primaries.fetch_and(~devices) & devices) != 0)) {
        announce_everything();
    }
    announce_vanished();
}

bool is_in_use(int device)
{
    const relaxed_capture relaxed(driver);
    bool is_active;
    return (query_primary(device, &is_active) == CUDA_SUCCESS) && is_active;
}

// Announces afterwards: only the last of many releases destroys the context,
// and no hook can predict which. A failed query may hide that. Threads of the
// plug-in retain the context as long as they need it.
struct release_primary {
    using signature = cuda_result(int);

    static cuda_result run(signature *next, int device)
    {
        const cuda_result result = next(device);
        if ((result == CUDA_SUCCESS) && !is_in_use(device)) {
            announce_primaries(bit_of(device));
        }
        return result;
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
            announce_primaries(gone);
        }
        return result;
    }

    static uint64_t active_primaries()
    {
        const relaxed_capture relaxed(driver);
        uint64_t active = 0;
        bool is_active;
        for (int device = 0;
             (device < max_devices) &&
             (query_primary(device, &is_active) == CUDA_SUCCESS);
             ++device) {
            active |= uint64_t{is_active} << device;
        }
        return active;
    }
};

// ---- The functions.

template <auto announce, class... Extra>
constexpr hooked_function releases(const char *symbol, int since)
{
    return {symbol, kind_of<releasing<decltype(announce), announce, Extra...>>,
            since};
}

template <auto announce, class... Extra>
constexpr hooked_function allocates(const char *symbol, int since,
                                    bool optional = false)
{
    return {symbol,
            kind_of<allocating<decltype(+announce), announce, Extra...>>, since,
            true, optional};
}

template <class... Args>
constexpr hooked_function creates(const char *symbol, int since)
{
    return allocates<create, Args...>(symbol, since, true);
}

// Functions that release memory, then functions that allocate it. UCX treats
// unannounced memory as host memory, and a known size saves a query. Not
// hooked: cuMemRelease (mapped memory lives until it is unmapped),
// cuMemHostUnregister and cuArrayDestroy (never device memory at an address).
constexpr hooked_function all_functions[] = {
    releases<&release::announce_free>("cuMemFree_v2", 3020),
    releases<&release::announce_free>("cuMemFree", 2000),
    releases<&release::announce_host_free>("cuMemFreeHost", 2000),
    releases<&release::announce_pool_free<false>>("cuMemFreeAsync", 11020),
    releases<&release::announce_pool_free<true>>("cuMemFreeAsync_ptsz", 11020),
    releases<&release::announce_unmap>("cuMemUnmap", 10020),
    releases<&release::announce_unmap>("cuMemAddressFree", 10020),
    releases<&release::announce_ipc_close>("cuIpcCloseMemHandle", 4010),
    releases<&release::announce_pool_trim, size_t>("cuMemPoolTrimTo", 11020),
    releases<&release::announce_pool_trim>("cuMemPoolDestroy", 11020),
    releases<&release::announce_unload>("cuModuleUnload", 2000),
    releases<&release::announce_unload>("cuLibraryUnload", 12000),
    releases<&release::announce_all, void *>("cuCtxDestroy_v2", 4000),
    releases<&release::announce_all, void *>("cuCtxDestroy", 2000),
    releases<&release::announce_all, void *>("cuCtxDetach", 2000),
    {"cuGreenCtxDestroy", kind_of<destroy_green_context>, 12040},
    releases<&release::announce_all, int>("cuDevicePrimaryCtxReset_v2", 11000),
    releases<&release::announce_all, int>("cuDevicePrimaryCtxReset", 7000),
    {"cuDevicePrimaryCtxRelease_v2", kind_of<release_primary>, 11000},
    {"cuDevicePrimaryCtxRelease", kind_of<release_primary>, 7000},
    releases<&release::announce_graph_free, void *>("cuGraphExecDestroy",
                                                    10000),
    releases<&release::announce_graph_free, int>("cuDeviceGraphMemTrim", 11040),

    allocates<allocate>("cuMemAlloc_v2", 3020),
    allocates<allocate_managed, unsigned>("cuMemAllocManaged", 6000),
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
    allocates<add_node<const void *>>("cuGraphAddNode_v3", 13040),
    allocates<add_node<const void *>>("cuGraphAddNode_v2", 12030),
    allocates<add_node<>>("cuGraphAddNode", 12020),
    creates<uint64_t *, size_t, const void *, uint64_t>("cuMemCreate", 10020),
    creates<void *, const void *>("cuArrayCreate_v2", 3020),
    creates<void *, const void *>("cuArray3DCreate_v2", 3020),
    creates<void *, const void *, unsigned>("cuMipmappedArrayCreate", 5000),
};

} // namespace

std::span<const hooked_function> hooked_functions()
{
    return all_functions;
}

} // namespace ucx_ib_dmabuf::ucm
