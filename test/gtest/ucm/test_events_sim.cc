// SPDX-License-Identifier: BSD-3-Clause
//
// The hooks on the simulated GPU, by every way to reach a function, with UCX's
// own CUDA hooks and without. All calls are of the public driver and runtime
// API, and would run on a real GPU.
#include <common/sim.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "gpu.h"
#include <ucm/code_patch.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;
using namespace ucm;

class CudaEventsSim : public testing::TestWithParam<bool> {};

GPU_TEST(CudaEventsSim, driver_api)
{
    Gpu gpu;
    // All are looked up before the hooks are installed.
    Free *by_symbol   = gpu.get<Free>("cuMemFree_v2");
    Free *by_entry    = gpu.entry<Free>("cuMemFree", 0);
    auto *async       = gpu.get<FreeAsync>("cuMemFreeAsync");
    auto *async_ptsz  = gpu.get<FreeAsync>("cuMemFreeAsync_ptsz");
    auto *async_entry = gpu.entry<FreeAsync>(
        "cuMemFreeAsync", CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    auto *alloc_async = gpu.get<MallocAsync>("cuMemAllocAsync");
    CUdeviceptr older = gpu.allocate(3 * MIB), address;

    install_all();
    expect_release(gpu, older, 3 * MIB, [&] { return by_symbol(older); });
    for (Free *call : {by_symbol, by_entry, gpu.get<Free>("cuMemFree_v2"),
                       gpu.entry<Free>("cuMemFree", 0)}) {
        address = gpu.allocate(2 * MIB);
        expect_release(gpu, address, 2 * MIB, [&] { return call(address); });
    }
    auto *synchronize = gpu.get<CUresult()>("cuCtxSynchronize");
    for (FreeAsync *call : {async, async_ptsz, async_entry}) {
        CHECK_EQ(int(alloc_async(&address, MIB, nullptr)), 0);
        expect_release(gpu, address, MIB,
                       [&] { return call(address, nullptr) | synchronize(); });
    }
    Events events;
    by_symbol(0); // frees nothing
    CHECK(events.take().empty());
}

// Installation calls the driver once per hooked function and a few times more,
// not once per function and version of CUDA.
GPU_TEST(CudaEventsSim, calls_at_the_start)
{
    Gpu gpu;
    if (gpu::is_simulated()) {
        const auto calls = gpu.get<decltype(cuda_sim_calls)>("cuda_sim_calls");
        const uint64_t before = calls(nullptr);
        install_all();
        CHECK(calls(nullptr) - before <= 60);
    }
}

GPU_TEST(CudaEventsSim, mappings)
{
    Gpu gpu;
    auto *unmap           = gpu.get<Range>("cuMemUnmap");
    auto *give_back       = gpu.get<Range>("cuMemAddressFree");
    const size_t size     = 4 * MIB;
    const auto properties = gpu::properties();
    CUdeviceptr address   = 0;
    CUmemGenericAllocationHandle handle;
    install_all();

    GPU_CALL(cuMemAddressReserve, &address, size, 0, 0, 0);
    GPU_CALL(cuMemCreate, &handle, size, &properties, 0);
    Events mapped;
    GPU_CALL(cuMemMap, address, size, 0, handle, 0);
    CHECK_EQ(mapped.take().size(), size_t(1));
    CHECK(!cuda_events_saw_allocation(address)); // one call may unmap many
    GPU_CALL(cuMemRelease, handle);
    CHECK(mapped.take().empty()); // the mapping holds the memory
    CHECK(gpu.alive(address));

    // Refused, as memory is mapped there: UCX must not forget it.
    CHECK(give_back(address, size) != CUDA_SUCCESS);
    const auto refused = mapped.take();
    CHECK(!refused.empty() && !refused.back().free);

    expect_release(gpu, address, size, [&] { return unmap(address, size); });
    mapped.take();
    CHECK_EQ(int(give_back(address, size)), 0);
    CHECK_EQ(mapped.frees_of(address + size - 1), size_t(1));
}

GPU_TEST(CudaEventsSim, pools)
{
    Gpu gpu;
    CUmemoryPool pool, second;
    CUmemPoolProps properties = {};
    properties.allocType      = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location       = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    GPU_CALL(cuMemPoolCreate, &pool, &properties);
    GPU_CALL(cuMemPoolCreate, &second, &properties);
    install_all();
    CUdeviceptr address, other;
    for (CUdeviceptr *each : {&address, &other}) {
        gpu.get<decltype(cuMemAllocFromPoolAsync)>(
            "cuMemAllocFromPoolAsync_ptsz")(each, 2 * MIB, pool, nullptr);
    }

    Events events;
    gpu.get<FreeAsync>("cuMemFreeAsync_ptsz")(address, nullptr);
    CHECK_EQ(events.frees_of(address + 2 * MIB - 1), size_t(1));
    GPU_CALL(cuMemPoolTrimTo, pool, 0);
    CHECK_EQ(events.frees_of(address), size_t(1));
    GPU_CALL(cuMemFreeAsync, other, nullptr);
    events.take();
    // This pool's end announces no other pool's memory, and no ordinary memory.
    GPU_CALL(cuMemAllocFromPoolAsync, &address, MIB, second, nullptr);
    GPU_CALL(cuMemFreeAsync, address, nullptr);
    address = gpu.allocate(MIB);
    GPU_CALL(cuMemFree, address);
    events.take();
    GPU_CALL(cuMemPoolDestroy, pool);
    const auto last = events.take();
    CHECK_EQ(last.size(), size_t(1));
    CHECK_EQ(last[0].address, uint64_t(other));
}

// A running graph frees and maps its memory.
GPU_TEST(CudaEventsSim, graph_memory)
{
    Gpu gpu;
    CUstream stream;
    CUdeviceptr address;
    GPU_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    install_all();
    GPU_CALL(cuMemAllocAsync, &address, MIB, stream);
    CHECK(cuda_events_complete());
    GPU_CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    GPU_CALL(cuMemAllocAsync, &address, MIB, stream);
    CHECK(!cuda_events_complete());
}

#if CUDA_VERSION >= 12030
// The newest cuGraphAddNode, since CUDA 13.4 the third one.
GPU_TEST(CudaEventsSim, graph_nodes, "CUDA_SIM_DRIVER_VERSION=13040")
{
    Gpu gpu;
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams params         = {};
    params.type                      = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.location  = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.bytesize            = MIB;
    int version                      = 0;
    GPU_CALL(cuGraphCreate, &graph, 0);
    GPU_CALL(cuDriverGetVersion, &version);
    auto *add =
        gpu.entry<decltype(cuGraphAddNode_v2)>("cuGraphAddNode", 0, version);
    install_all();
    Events events;
    CHECK_EQ(int(add(&node, graph, nullptr, nullptr, 0, &params)), 0);
    CHECK(!cuda_events_complete());
    const auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(1));
    CHECK(!seen[0].free && seen[0].address == params.alloc.dptr);
}
#endif

// UCX would register another process's memory, which is never exported.
GPU_TEST(CudaEventsSim, opened_memory)
{
    Gpu gpu;
    install_all();
    if (!gpu::is_simulated()) {
        return; // a real driver opens no memory of its own process
    }
    Events events;
    bool managed = false;
    const gpu::buffer opened(MIB, gpu::memory::opened);
    for (const SeenEvent &event : events.take()) {
        managed |= (event.address == opened.address()) &&
                   (event.type == UCS_MEMORY_TYPE_CUDA_MANAGED);
    }
    CHECK(managed);
    gpu::buffer(MIB, gpu::memory::variable); // its module is unloaded
    CHECK_EQ(events.frees_of(opened.address()), size_t(0));
}

GPU_TEST(CudaEventsSim, contexts)
{
    Gpu gpu;
    CUcontext context = gpu::create_context(0);
    install_all();
    const CUdeviceptr address = gpu.allocate(MIB);
    gpu.make_current(gpu.context);
    const CUdeviceptr kept = gpu.allocate(MIB);

    const auto expect_everything = [&](CUdeviceptr where,
                                       const std::function<int()> &release) {
        Events events([&] { return gpu.alive(where); });
        CHECK_EQ(release(), 0);
        bool before = false, after = false;
        for (const SeenEvent &event : events.take()) {
            before |= event.free && (event.size == 0) && event.context;
            after |= event.free && (event.address == where) &&
                     (event.size == MIB) && !event.context;
            CHECK(event.address != kept || where == kept);
        }
        CHECK(before);
        CHECK(after);
    };
    expect_everything(address, [&] {
        return gpu.get<CUresult(CUcontext)>("cuCtxDestroy_v2")(context);
    });
    CHECK(gpu.alive(kept));
    expect_everything(kept, [&] {
        return gpu.entry<CUresult(CUdevice)>("cuDevicePrimaryCtxReset", 0)(0);
    });
}

GPU_TEST(CudaEventsSim, runtime_api)
{
    Gpu gpu;
    const bool late = !variable("LATE_RUNTIME").empty();
    const auto open = [] {
        return open_library(variable("CUDART_PATH").c_str());
    };
    void *runtime = late ? nullptr : open();
    install_all();
    if (late) {
        runtime = open();
        GPU_CALL(cuDevicePrimaryCtxRetain, &gpu.context, 0);
        cuda_events_refresh();
    }
    // The driver's hooks suffice.
    CHECK(patched_target(symbol_of(runtime, "cudaDeviceReset")) == nullptr);
    void *address;
    auto *allocate = function_of<int(void **, size_t)>(runtime, "cudaMalloc");
    auto *allocate_async =
        function_of<int(void **, size_t, void *)>(runtime, "cudaMallocAsync");
    auto *synchronize = function_of<int()>(runtime, "cudaDeviceSynchronize");
    const auto where  = [&] { return reinterpret_cast<CUdeviceptr>(address); };

    // Repeated searches for new runtimes hook nothing twice.
    for (int i = 0; i < 30; ++i) {
        dlclose(open_library(variable("top_builddir") +
                             "/test/gtest/ucm/fake/caller.so"));
        install_all();
    }
    CHECK_EQ(allocate(&address, 2 * MIB), 0);
    expect_release(gpu, where(), 2 * MIB, [&] {
        return function_of<int(void *)>(runtime, "cudaFree")(address);
    });
    CHECK_EQ(allocate_async(&address, 2 * MIB, nullptr), 0);
    expect_release(gpu, where(), 2 * MIB, [&] {
        return function_of<int(void *, void *)>(runtime, "cudaFreeAsync")(
                   address, nullptr) |
               synchronize();
    });
    CHECK_EQ(allocate(&address, 2 * MIB), 0);
    Events events([&] { return gpu.alive(where()); });
    CHECK_EQ(function_of<int()>(runtime, "cudaDeviceReset")(), 0);
    bool before = false;
    for (const SeenEvent &event : events.take()) {
        before |= event.free && (event.size == 0) && event.context;
    }
    CHECK(before);
    CHECK(!gpu.alive(where()));
}

// The GPU is full of memory that the handler frees on request. Calls that UCX's
// own hooks see reach the handler, too.
GPU_TEST(CudaEventsSim, no_memory_left, "CUDA_SIM_MEMORY_MIB=64")
{
    static Gpu gpu;
    static CUdeviceptr held = 0;
    static int asked        = 0;
    constexpr size_t SMALL = 2 * MIB, LARGE = 40 * MIB; // of 64 MiB
    void *runtime = open_library(variable("CUDART_PATH").c_str());

    const std::function<int(CUdeviceptr *, size_t)> calls[] = {
        gpu.get<Malloc>("cuMemAlloc_v2"), gpu.entry<Malloc>("cuMemAlloc", 0),
        function_of<Malloc>(runtime, "cudaMalloc"),
        [&](CUdeviceptr *out, size_t size) {
            size_t pitch;
            return GPU_TRY(cuMemAllocPitch, out, &pitch, size / 1024, 1024, 4);
        },
        [&](CUdeviceptr *out, size_t size) {
            return GPU_TRY(cuMemAllocAsync, out, size, nullptr);
        }};
    const auto release = [&](CUdeviceptr address) {
        CUmemoryPool pool;
        GPU_CALL(cuMemFree, address);
        GPU_CALL(cuDeviceGetDefaultMemPool, &pool, 0);
        GPU_CALL(cuMemPoolTrimTo, pool, 0);
    };
    install_all();
    cuda_events_on_out_of_memory(
        [](void *) {
            ++asked;
            const CUdeviceptr was = std::exchange(held, 0);
            return (was != 0) && (gpu.get<Free>("cuMemFree_v2")(was) == 0);
        },
        nullptr);
    for (const auto &call : calls) {
        CUdeviceptr address;
        asked = 0;
        held  = gpu.allocate(LARGE);
        Events events;
        CHECK_EQ(call(&address, LARGE), 0);
        CHECK_EQ(asked, 1);
        size_t allocations = 0;
        for (const SeenEvent &event : events.take()) {
            allocations += !event.free && (event.address == address);
        }
        CHECK_EQ(allocations, size_t(1));
        CUdeviceptr none;
        CHECK_EQ(call(&none, LARGE), int(CUDA_ERROR_OUT_OF_MEMORY));
        CHECK_EQ(asked, 2); // in vain
        release(address);
        CHECK_EQ(call(&address, SMALL), 0);
        CHECK_EQ(asked, 2); // there is memory
        release(address);
    }
}

TEST_P(CudaEventsSim, RuntimeLoadedLater)
{
    EXPECT_TRUE(run_on_gpu("runtime_api", GetParam(), "LATE_RUNTIME=1"));
}

WITH_AND_WITHOUT_UCX(CudaEventsSim);

} // namespace
} // namespace ucx_ib_dmabuf
