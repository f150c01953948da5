// SPDX-License-Identifier: BSD-3-Clause
//
// The hooks on the simulated GPU, with UCX's own CUDA hooks and without. All
// calls are of the public driver and runtime API, and would run on a real GPU.
#include "gpu.h"
#include <common/sim.h>
#include <gtest/gtest.h>
#include <ucm/code_patch.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

class CudaEventsSim : public testing::TestWithParam<bool> {};

// Installation calls the driver once per hooked function and a few times more,
// not once per function and version of CUDA.
GPU_TEST(CudaEventsSim, calls_at_the_start)
{
    if (gpu::is_simulated()) {
        auto *calls = gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls");
        const uint64_t before = calls(nullptr);
        install_all();
        EXPECT_LE(calls(nullptr) - before, 60);
    }
}

GPU_TEST(CudaEventsSim, mappings)
{
    constexpr size_t size = 4 * MIB;
    install_all();
    CUdeviceptr address = 0;
    GPU_CALL(cuMemAddressReserve, &address, size, 0, 0, 0);
    Events mapped;
    gpu::physical(size).map(address); // the mapping holds the memory
    EXPECT_EQ(mapped.take().size(), 1u);
    EXPECT_FALSE(
        cuda_events_saw_allocation(address)); // one call may unmap many
    EXPECT_TRUE(is_alive(address));

    // Refused, as memory is mapped there: UCX must not forget it.
    EXPECT_NE(GPU_TRY(cuMemAddressFree, address, size), CUDA_SUCCESS);
    const auto refused = mapped.take();
    EXPECT_TRUE(!refused.empty() && !refused.back().free);

    expect_release(address, size,
                   [&] { return GPU_TRY(cuMemUnmap, address, size); });
    mapped.take();
    GPU_CALL(cuMemAddressFree, address, size);
    EXPECT_EQ(mapped.frees_of(address + size - 1), 1u);
}

#if CUDA_VERSION >= 12030
// The newest cuGraphAddNode, since CUDA 13.4 the third one.
GPU_TEST(CudaEventsSim, graph_nodes, "CUDA_SIM_DRIVER_VERSION=13040")
{
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
        entry_of<decltype(cuGraphAddNode_v2)>("cuGraphAddNode", version);
    install_all();
    Events events;
    EXPECT_EQ(int(add(&node, graph, nullptr, nullptr, 0, &params)), 0);
    EXPECT_FALSE(cuda_events_complete());
    const auto seen = events.take();
    EXPECT_EQ(seen.size(), 1u);
    EXPECT_TRUE(!seen[0].free && seen[0].address == params.alloc.dptr);
}
#endif

// UCX would register another process's memory, which is never exported.
GPU_TEST(CudaEventsSim, opened_memory)
{
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
    EXPECT_TRUE(managed);
    gpu::buffer(MIB, gpu::memory::variable); // its module is unloaded
    EXPECT_EQ(events.frees_of(opened.address()), 0u);
}

// Expects that a release of a context announces everything before, and the
// range of this memory afterwards.
void expect_everything(CUdeviceptr gone, const std::function<int()> &release)
{
    Events events([&] { return is_alive(gone); });
    EXPECT_EQ(release(), 0);
    bool before = false, after = false;
    for (const SeenEvent &event : events.take()) {
        before |= event.free && (event.size == 0) && event.context;
        after |= event.free && (event.address == gone) && (event.size == MIB) &&
                 !event.context;
    }
    EXPECT_TRUE(before);
    EXPECT_TRUE(after);
}

// A program that uses only the runtime's functions, which have no hooks: the
// driver's hooks see each of its releases.
GPU_TEST(CudaEventsSim, runtime_api)
{
    install_all(); // the runtime is loaded later
    void *const runtime = open_library(variable("CUDART_PATH"));
    const auto call     = [&](const char *name, auto... args) {
        return function_of<int(decltype(args)...)>(runtime, name)(args...);
    };
    for (const char *name :
         {"cudaMalloc", "cudaFree", "cudaFreeAsync", "cudaDeviceReset"}) {
        EXPECT_EQ(ucm::patched_target(symbol_of(runtime, name)), nullptr);
    }
    void *address = nullptr;
    size_t pitch;
    const std::function<int()> allocations[] = {
        [&] { return call("cudaMalloc", &address, MIB); },
        [&] { return call("cudaMallocManaged", &address, MIB, 1U); },
        [&] {
            return call("cudaMallocPitch", &address, &pitch, MIB, size_t{1});
        },
    };
    for (const auto &allocate : allocations) {
        EXPECT_EQ(allocate(), 0);
        expect_release(reinterpret_cast<CUdeviceptr>(address), MIB,
                       [&] { return call("cudaFree", address); });
    }
    void *const stream = nullptr;
    EXPECT_EQ(call("cudaMallocAsync", &address, MIB, stream), 0);
    expect_release(reinterpret_cast<CUdeviceptr>(address), MIB, [&] {
        return call("cudaFreeAsync", address, stream) |
               call("cudaDeviceSynchronize");
    });
    EXPECT_EQ(call("cudaMalloc", &address, MIB), 0);
    expect_everything(reinterpret_cast<CUdeviceptr>(address),
                      [&] { return call("cudaDeviceReset"); });
}

// The GPU is full of memory that the handler frees on request. Calls that UCX's
// own hooks see reach the handler, too.
GPU_TEST(CudaEventsSim, no_memory_left, "CUDA_SIM_MEMORY_MIB=64")
{
    using Malloc           = CUresult(CUdeviceptr *, size_t);
    constexpr size_t LARGE = 40 * MIB; // of 64 MiB
    static CUdeviceptr held;
    void *runtime = open_library(variable("CUDART_PATH"));

    const std::function<int(CUdeviceptr *, size_t)> calls[] = {
        gpu::entry<Malloc>("cuMemAlloc_v2"), entry_of<Malloc>("cuMemAlloc"),
        function_of<Malloc>(runtime, "cudaMalloc"),
        [&](CUdeviceptr *out, size_t size) {
            size_t pitch;
            return GPU_TRY(cuMemAllocPitch, out, &pitch, size / 1024, 1024, 4);
        },
        [&](CUdeviceptr *out, size_t size) {
            return GPU_TRY(cuMemAllocAsync, out, size, nullptr);
        }};
    install_all();
    cuda_events_subscribe({.out_of_memory = [](void *) {
        const CUdeviceptr was = std::exchange(held, 0);
        return (was != 0) && (GPU_TRY(cuMemFree, was) == CUDA_SUCCESS);
    }});
    for (const auto &call : calls) {
        CUdeviceptr address, none;
        held = allocate(LARGE);
        Events events;
        EXPECT_EQ(call(&address, LARGE), 0);
        EXPECT_EQ(held, CUdeviceptr(0));
        size_t allocations = 0;
        for (const SeenEvent &event : events.take()) {
            allocations += !event.free && (event.address == address);
        }
        EXPECT_EQ(allocations, 1u);
        EXPECT_EQ(call(&none, LARGE), int(CUDA_ERROR_OUT_OF_MEMORY)); // in vain

        CUmemoryPool pool;
        GPU_CALL(cuMemFree, address);
        GPU_CALL(cuDeviceGetDefaultMemPool, &pool, 0);
        GPU_CALL(cuMemPoolTrimTo, pool, 0);
    }
}

// Only ordinary memory, once, after its event.
GPU_TEST(CudaEventsSim, new_memory_is_told_once, "")
{
    using Malloc = CUresult(CUdeviceptr *, size_t);
    static std::vector<uint64_t> told;
    void *runtime = open_library(variable("CUDART_PATH"));
    install_all();
    cuda_events_subscribe(
        {.allocated = [](uint64_t address, size_t size, void *) {
            EXPECT_GE(size, MIB);
            told.push_back(address);
        }});
    CUdeviceptr address;
    size_t pitch;
    for (Malloc *call : {gpu::entry<Malloc>("cuMemAlloc_v2"),
                         function_of<Malloc>(runtime, "cudaMalloc")}) {
        EXPECT_EQ(call(&address, MIB), 0);
        EXPECT_EQ(told, std::vector<uint64_t>{address});
        told.clear();
    }
    GPU_CALL(cuMemAllocPitch, &address, &pitch, MIB, 1, 4);
    EXPECT_EQ(told, std::vector<uint64_t>{address});
    told.clear();
    GPU_CALL(cuMemAllocManaged, &address, MIB, CU_MEM_ATTACH_GLOBAL);
    GPU_CALL(cuMemAllocAsync, &address, MIB, nullptr);
    EXPECT_TRUE(told.empty());
}

WITH_AND_WITHOUT_UCX(CudaEventsSim);

} // namespace
} // namespace ucx_ib_dmabuf
