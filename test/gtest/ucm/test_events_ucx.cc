// SPDX-License-Identifier: BSD-3-Clause
//
// UCX's reactions to the events, and the hooks with several threads.
#include "gpu.h"
#include <atomic>
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

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
    gpu::use();
    void *runtime   = open_library(variable("CUDART_PATH"));
    const auto call = [&](const char *name, auto... args) {
        CHECK_EQ(function_of<int(decltype(args)...)>(runtime, name)(args...),
                 0);
    };
    void *const stream = nullptr;
    CUdeviceptr address;
    install_all();

    Events events;
    const auto expect_one_each = [&] {
        size_t frees = 0, allocations = 0;
        for (const SeenEvent &event : events.take()) {
            ++(event.free ? frees : allocations);
            CHECK_EQ(event.address, uint64_t(address));
        }
        CHECK_EQ(frees, size_t(1));
        CHECK_EQ(allocations, size_t(1));
    };
    address = allocate(MIB);
    GPU_CALL(cuMemFree, address);
    expect_one_each();
    CHECK(!cuda_events_saw_allocation(address)); // it is gone
    GPU_CALL(cuMemAllocAsync, &address, MIB, nullptr);
    GPU_CALL(cuMemFreeAsync, address, nullptr);
    expect_one_each();
    call("cudaMalloc", &address, MIB);
    call("cudaFree", address);
    expect_one_each();
    call("cudaMallocAsync", &address, MIB, stream);
    call("cudaFreeAsync", address, stream);
    expect_one_each();
}

std::atomic<int> deregistered{0};

ucs_rcache_t *create_rcache()
{
    static ucs_rcache_ops_t operations = {
        [](void *, ucs_rcache_t *, void *, ucs_rcache_region_t *, uint16_t) {
            return ::UCS_OK;
        },
        [](void *, ucs_rcache_t *, ucs_rcache_region_t *) { ++deregistered; },
        [](void *, ucs_rcache_t *, void *, ucs_rcache_region_t *) {},
        [](void *, ucs_rcache_t *, ucs_rcache_region_t *, char *, size_t) {}};
    ucs_rcache_params_t params = {};
    params.region_struct_size  = sizeof(ucs_rcache_region_t);
    params.ucm_events          = UCM_EVENT_MEM_TYPE_FREE;
    params.ucm_event_priority  = 1000;
    params.ops                 = &operations;
    params.max_regions         = 1000;
    params.max_size            = SIZE_MAX;
    params.max_unreleased      = SIZE_MAX;
    ucs_rcache_t *created      = nullptr;
    CHECK_EQ(int(ucs_rcache_create(&params, "test", nullptr, &created)), 0);
    return created;
}

void look_up(ucs_rcache_t *rcache, CUdeviceptr address)
{
    ucs_rcache_region_t *region;
    CHECK_EQ(int(ucs_rcache_get(rcache, reinterpret_cast<void *>(address), 4096,
                                UCS_PGT_ADDR_ALIGN, PROT_READ | PROT_WRITE,
                                nullptr, &region)),
             0);
    ucs_rcache_region_put(rcache, region);
}

bool is_known(CUdeviceptr address)
{
    ucs_memory_info_t info;
    return (ucs_memtype_cache_lookup(reinterpret_cast<void *>(address), 4096,
                                     &info) == ::UCS_OK) &&
           (info.type != ::UCS_MEMORY_TYPE_UNKNOWN);
}

// UCX's caches handle the events as intended. A registration cache drops the
// announced ranges, and all ranges at "everything"; the memory type cache keeps
// live memory. If the driver's answer is unclear, UCX queries it each time.
GPU_TEST(CudaEventsUcx, ucx_caches, "CUDA_SIM_GONE=1")
{
    CUcontext other = gpu::create_context(0);
    install_all();
    is_known(1); // creates that cache
    const CUdeviceptr gone = allocate(MIB);
    GPU_CALL(cuCtxSetCurrent, context);
    const CUdeviceptr kept = allocate(MIB);
    ucs_rcache_t *rcache   = create_rcache();
    look_up(rcache, gone);
    look_up(rcache, kept);
    CHECK(is_known(gone) && is_known(kept));

    GPU_CALL(cuCtxDestroy, other);
    CHECK(!is_known(gone));
    CHECK(is_known(kept));
    look_up(rcache, kept); // the cache deregisters at its next use
    CHECK_EQ(deregistered.load(), 2);

    GPU_CALL(cuMemFree, kept);
    CHECK(!is_known(kept));
    look_up(rcache, 0x10000);
    CHECK_EQ(deregistered.load(), 3);

    // A stream-ordered allocation is known, too; UCX alone may miss it.
    CUdeviceptr async;
    GPU_CALL(cuMemAllocAsync, &async, MIB, nullptr);
    CHECK(is_known(async));
    ucs_rcache_destroy(rcache);
}

GPU_TEST(CudaEventsUcx, threads)
{
    constexpr int THREADS = 4, ROUNDS = 500;
    install_all();
    auto *alloc_async =
        gpu::entry<decltype(cuMemAllocAsync)>("cuMemAllocAsync_ptsz");
    auto *release_async = gpu::entry<FreeAsync>("cuMemFreeAsync_ptsz");

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
        GPU_CALL(cuCtxSetCurrent, context);
        for (unsigned round = 0; round < ROUNDS; ++round) {
            if ((i + round) % 2) {
                expected = allocate(MIB);
                GPU_CALL(cuMemFree, expected);
            } else {
                CHECK_EQ(int(alloc_async(&expected, MIB, nullptr)), 0);
                CHECK_EQ(int(release_async(expected, nullptr)), 0);
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
