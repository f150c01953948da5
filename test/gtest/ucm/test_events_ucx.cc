// SPDX-License-Identifier: BSD-3-Clause
//
// UCX's reactions to the events, the hooks with several threads, and two
// instances of UCX in one process, as with a Python package. Both hook the same
// functions of the driver, in either order, and each subscriber must get each
// release.
#include "gpu.h"
#include "second_ucx.h"
#include <algorithm>
#include <atomic>
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucm/code_patch.h>

extern "C" {
#include <ucs/memory/memtype_cache.h>
#include <ucs/memory/rcache.h>
}

namespace ucx_ib_dmabuf {
namespace {

using namespace test;
using namespace ucm;

class CudaEventsUcx : public testing::TestWithParam<bool> {};

// With UCX's CUDA module, each driver call is announced once, by UCX or by us.
void expect_no_double_events()
{
    gpu::use();
    install_all();

    Events events;
    const auto expect_one_each = [&](CUdeviceptr address) {
        size_t frees = 0, allocations = 0;
        for (const SeenEvent &event : events.take()) {
            ++(event.free ? frees : allocations);
            EXPECT_EQ(event.address, uint64_t(address));
        }
        EXPECT_EQ(frees, 1u);
        EXPECT_EQ(allocations, 1u);
    };
    CUdeviceptr address = allocate(MIB);
    GPU_CALL(cuMemFree, address);
    expect_one_each(address);
    EXPECT_FALSE(cuda_events_saw_allocation(address)); // it is gone
    GPU_CALL(cuMemAllocAsync, &address, MIB, nullptr);
    GPU_CALL(cuMemFreeAsync, address, nullptr);
    expect_one_each(address);
}

TEST(CudaEventsUcxOnly, no_double_events)
{
    run_alone(expect_no_double_events, gpu_environment(true));
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
    EXPECT_EQ(int(ucs_rcache_create(&params, "test", nullptr, &created)), 0);
    return created;
}

void look_up(ucs_rcache_t *rcache, CUdeviceptr address)
{
    ucs_rcache_region_t *region;
    EXPECT_EQ(int(ucs_rcache_get(rcache, reinterpret_cast<void *>(address),
                                 4096, UCS_PGT_ADDR_ALIGN,
                                 PROT_READ | PROT_WRITE, nullptr, &region)),
              0);
    ucs_rcache_region_put(rcache, region);
}

bool is_known(CUdeviceptr address)
{
    ucs_memory_info_t info;
    return ucs_memtype_cache_lookup(reinterpret_cast<void *>(address), 4096,
                                    &info) == ::UCS_OK;
}

// UCX's caches handle the events as intended. A registration cache drops the
// announced ranges, and all ranges at "everything"; the memory type cache keeps
// live memory. It asks the driver about memory that went with a context.
GPU_TEST(CudaEventsUcx, ucx_caches)
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
    EXPECT_TRUE(is_known(gone) && is_known(kept));

    GPU_CALL(cuCtxDestroy, other);
    EXPECT_TRUE(
        is_known(gone)); // UCX asks the driver, as there may be new memory
    EXPECT_TRUE(is_known(kept));
    look_up(rcache, kept); // the cache deregisters at its next use
    EXPECT_EQ(deregistered.load(), 2);

    GPU_CALL(cuMemFree, kept);
    EXPECT_FALSE(is_known(kept));
    look_up(rcache, 0x10000);
    EXPECT_EQ(deregistered.load(), 3);

    // A stream-ordered allocation is known, too; UCX alone may miss it.
    CUdeviceptr async;
    GPU_CALL(cuMemAllocAsync, &async, MIB, nullptr);
    EXPECT_TRUE(is_known(async));
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
    EXPECT_TRUE(all_ucm().front()->set_event_handler(
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
                EXPECT_EQ(int(alloc_async(&expected, MIB, nullptr)), 0);
                EXPECT_EQ(int(release_async(expected, nullptr)), 0);
            }
            EXPECT_EQ(cuda_events_install(), UCS_OK);
        }
    });
    EXPECT_EQ(right.load(), long(THREADS) * ROUNDS);
    EXPECT_EQ(wrong.load(), 0l);
}

// `other` is the second instance's, which may have hooks of its own.
void expect_releases(Events &other)
{
    CUdeviceptr address = allocate(2 * MIB);
    expect_release(address, 2 * MIB,
                   [&] { return GPU_TRY(cuMemFree, address); });
    EXPECT_EQ(other.frees_of(address), size_t(other.subscribed()));

    GPU_CALL(cuMemAllocAsync, &address, MIB, nullptr);
    expect_release(address, MIB, [&] {
        return GPU_TRY(cuMemFreeAsync, address, nullptr) |
               GPU_TRY(cuCtxSynchronize);
    });
}

class CudaEventsCopies : public testing::TestWithParam<bool> {
protected:
    void SetUp() override
    {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "the sanitizer forbids RTLD_DEEPBIND";
#endif
    }
};

GPU_TEST(CudaEventsCopies, other_first)
{
    const SecondUcx other;
    Events by(nullptr, other.functions(), 0);
    EXPECT_TRUE(by.subscribed());
    EXPECT_TRUE(other.has(patched_target(gpu::entry<void>("cuMemFree_v2"))));
    install_all();
    expect_releases(by);
}

// UCM does not know our jump, and leaves it alone.
GPU_TEST(CudaEventsCopies, other_later)
{
    install_all();
    const SecondUcx other;
    Events by(nullptr, other.functions(), 0);
    expect_releases(by);
    install_all(); // again: no effect
    expect_releases(by);
}

// The second instance has no hooks. Hooks of the first instance's UCM, if any,
// notify only that one; their events are passed on.
GPU_TEST(CudaEventsCopies, other_without_cuda)
{
    install_all();
    const SecondUcx other;
    Events by(nullptr, other.functions());
    add_ucm(other.functions());

    CUdeviceptr address = allocate(2 * MIB);
    const auto seen     = by.take();
    EXPECT_FALSE(seen.empty());
    EXPECT_TRUE(!seen[0].free && (seen[0].address == address));
    GPU_CALL(cuMemFree, address);
    EXPECT_GT(by.frees_of(address), 0);
}

// From 1.17 to 1.20 UCP notes each release, until it is called.
GPU_TEST(CudaEventsCopies, releases_of_what_ucp_does_not_keep)
{
    install_all();
    const SecondUcx other;
    static ucm_functions functions = other.functions();
    functions.has_cuda             = false;
    add_ucm(functions);

    for (const bool kept : {false, true, false, true}) {
        const CUdeviceptr address = allocate(2 * MIB), next = allocate(2 * MIB);
        if (kept) {
            note_registered(address);
            note_registered(address + MIB / 2);
            note_registered(next);
        }
        Events by(nullptr, functions);
        GPU_CALL(cuMemFree, address);
        const auto seen = by.take();
        EXPECT_FALSE(seen.empty());
        EXPECT_EQ(
            std::ranges::any_of(
                seen, [&](auto &e) { return e.free && e.covers(address); }),
            kept);
        EXPECT_FALSE(take_registered(address, 2 * MIB));
        EXPECT_EQ(take_registered(next, 2 * MIB), kept);
        GPU_CALL(cuMemFree, next);
    }
    registers_unseen = true;
    EXPECT_TRUE(take_registered(MIB, 1));
}

// A handler of the first instance may release other memory meanwhile.
GPU_TEST(CudaEventsCopies, a_handler_that_releases)
{
    CUdeviceptr inner = allocate(MIB);
    Events events([&] { // called before ours
        return (inner == 0) ? 0 : GPU_TRY(cuMemFree, std::exchange(inner, 0));
    });
    const CUdeviceptr address = allocate(2 * MIB);
    install_all();
    const SecondUcx other;
    Events by(nullptr, other.functions());
    add_ucm(other.functions());
    GPU_CALL(cuMemFree, address);
    EXPECT_EQ(inner, CUdeviceptr(0));
    EXPECT_EQ(by.frees_of(address), 1u);
}

WITH_AND_WITHOUT_UCX(CudaEventsUcx);
WITH_AND_WITHOUT_UCX(CudaEventsCopies);

} // namespace
} // namespace ucx_ib_dmabuf
