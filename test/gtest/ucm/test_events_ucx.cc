// SPDX-License-Identifier: BSD-3-Clause
//
// UCX's reactions to the events, and the hooks with several threads.
#include <atomic>
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "gpu.h"

extern "C" {
#include <ucs/memory/memtype_cache.h>
#include <ucs/memory/rcache.h>
}

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

class CudaEventsUcx : public testing::TestWithParam<bool> {};

// With UCX's CUDA module, each driver call is announced once, by UCX or by us.
TEST(CudaEventsUcxOnly, no_double_events)
{
    EXPECT_TRUE(run_on_gpu("no_double_events", true));
}

SCENARIO(no_double_events)
{
    Gpu gpu;
    void *runtime = open_library(variable("CUDART_PATH"));
    install_all();

    Events events;
    CUdeviceptr address = gpu.allocate(MIB);
    CHECK_EQ(events.take().size(), size_t(1));
    GPU_CALL(cuMemFree, address);
    CHECK_EQ(events.frees_of(address), size_t(1));
    CHECK(!cuda_events_saw_allocation(address)); // it is gone
    GPU_CALL(cuMemAllocAsync, &address, MIB, nullptr);
    GPU_CALL(cuMemFreeAsync, address, nullptr);
    CHECK_EQ(events.frees_of(address), size_t(1));
    void *pointer;
    CHECK_EQ(
        function_of<int(void **, size_t)>(runtime, "cudaMalloc")(&pointer, MIB),
        0);
    events.take();
    CHECK_EQ(function_of<int(void *)>(runtime, "cudaFree")(pointer), 0);
    CHECK_EQ(events.frees_of(reinterpret_cast<CUdeviceptr>(pointer)),
             size_t(1));
    CHECK_EQ(function_of<int(void **, size_t, void *)>(
                 runtime, "cudaMallocAsync")(&pointer, MIB, nullptr),
             0);
    events.take();
    CHECK_EQ(function_of<int(void *, void *)>(runtime, "cudaFreeAsync")(
                 pointer, nullptr),
             0);
    CHECK_EQ(events.frees_of(reinterpret_cast<CUdeviceptr>(pointer)),
             size_t(1));
}

::ucs_status_t register_region(void *, ucs_rcache_t *, void *,
                               ucs_rcache_region_t *, uint16_t)
{
    return ::UCS_OK;
}

std::atomic<int> deregistered{0};

void deregister_region(void *, ucs_rcache_t *, ucs_rcache_region_t *)
{
    ++deregistered;
}

void dump_region(void *, ucs_rcache_t *, ucs_rcache_region_t *, char *, size_t)
{
}

// UCX's caches handle the events as intended. A registration cache drops the
// announced ranges, and all ranges at "everything"; the memory type cache keeps
// live memory. If the driver's answer is unclear, UCX queries it each time.
GPU_TEST(CudaEventsUcx, ucx_caches, "CUDA_SIM_GONE=1")
{
    Gpu gpu;
    CUcontext context = gpu::create_context(0);
    install_all();
    ucs_memory_info_t info;
    ucs_memtype_cache_lookup(&info, 1, &info); // creates it
    const CUdeviceptr gone = gpu.allocate(MIB);
    gpu.make_current(gpu.context);
    const CUdeviceptr kept = gpu.allocate(MIB);

    static ucs_rcache_ops_t operations = {
        register_region, deregister_region,
        [](void *, ucs_rcache_t *, void *, ucs_rcache_region_t *) {},
        dump_region};
    ucs_rcache_params_t params = {};
    params.region_struct_size  = sizeof(ucs_rcache_region_t);
    params.ucm_events          = UCM_EVENT_MEM_TYPE_FREE;
    params.ucm_event_priority  = 1000;
    params.ops                 = &operations;
    params.max_regions         = 1000;
    params.max_size            = SIZE_MAX;
    params.max_unreleased      = SIZE_MAX;
    ucs_rcache_t *rcache;
    CHECK_EQ(int(ucs_rcache_create(&params, "test", nullptr, &rcache)), 0);
    const auto look_up = [&](CUdeviceptr address) {
        ucs_rcache_region_t *region;
        CHECK_EQ(int(ucs_rcache_get(rcache, reinterpret_cast<void *>(address),
                                    4096, UCS_PGT_ADDR_ALIGN,
                                    PROT_READ | PROT_WRITE, nullptr, &region)),
                 0);
        ucs_rcache_region_put(rcache, region);
    };
    const auto known = [&](CUdeviceptr address) {
        return ucs_memtype_cache_lookup(reinterpret_cast<void *>(address), 4096,
                                        &info) == ::UCS_OK;
    };
    look_up(gone);
    look_up(kept);
    CHECK(known(gone) && known(kept));

    GPU_CALL(cuCtxDestroy, context);
    CHECK(!known(gone));
    CHECK(known(kept));
    look_up(kept); // the cache deregisters at its next use
    CHECK_EQ(deregistered.load(), 2);

    GPU_CALL(cuMemFree, kept);
    CHECK(!known(kept));
    look_up(0x10000);
    CHECK_EQ(deregistered.load(), 3);

    // A stream-ordered allocation is known, too; UCX alone may miss it.
    CUdeviceptr async;
    GPU_CALL(cuMemAllocAsync, &async, MIB, nullptr);
    CHECK(known(async));
    ucs_rcache_destroy(rcache);
}

GPU_TEST(CudaEventsUcx, threads)
{
    constexpr int THREADS = 4, ROUNDS = 500;
    Gpu gpu;
    install_all();
    auto *allocate      = gpu.get<Malloc>("cuMemAlloc_v2");
    auto *release       = gpu.get<Free>("cuMemFree_v2");
    auto *alloc_async   = gpu.get<MallocAsync>("cuMemAllocAsync_ptsz");
    auto *release_async = gpu.get<FreeAsync>("cuMemFreeAsync_ptsz");

    static thread_local CUdeviceptr expected;
    static std::atomic<long> right{0}, wrong{0};
    CHECK(all_ucm().front()->set_event_handler(
              UCM_EVENT_MEM_TYPE_FREE | UCM_EVENT_FLAG_NO_INSTALL, 0,
              [](ucm_event_type_t, ucm_event_t *event, void *) {
                  // Runs in the thread that frees.
                  (event->mem_type.address ==
                               reinterpret_cast<void *>(expected) &&
                           event->mem_type.size == MIB
                       ? right
                       : wrong)++;
              },
              nullptr) == UCS_OK);
    in_threads(THREADS, [&](unsigned i) {
        gpu.make_current(gpu.context);
        for (unsigned round = 0; round < ROUNDS; ++round) {
            CUdeviceptr address;
            if ((i + round) % 2) {
                CHECK_EQ(int(allocate(&address, MIB)), 0);
                expected = address;
                CHECK_EQ(int(release(address)), 0);
            } else {
                CHECK_EQ(int(alloc_async(&address, MIB, nullptr)), 0);
                expected = address;
                CHECK_EQ(int(release_async(address, nullptr)), 0);
            }
            CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
        }
    });
    CHECK_EQ(right.load(), long(THREADS) * ROUNDS);
    CHECK_EQ(wrong.load(), 0l);
}

WITH_AND_WITHOUT_UCX(CudaEventsUcx);

} // namespace
} // namespace ucx_ib_dmabuf
