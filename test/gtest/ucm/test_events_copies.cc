// SPDX-License-Identifier: BSD-3-Clause
//
// Two instances of UCX in one process, as with a Python package: both hook the
// same functions of the driver, in either order, and each subscriber must get
// each release.
#include <gtest/gtest.h>

#include "gpu.h"
#include "second_ucx.h"
#include <ucm/code_patch.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;
using namespace ucm;

// Number of releases that the second instance has announced.
long other_releases = 0;

void count_release(ucm_event_type_t type, ucm_event_t *, void *)
{
    other_releases += (type == UCM_EVENT_MEM_TYPE_FREE);
}

void expect_releases(const Gpu &gpu, bool by_other)
{
    const long before   = other_releases;
    CUdeviceptr address = gpu.allocate(2 * MIB);
    expect_release(gpu, address, 2 * MIB,
                   [&] { return gpu.get<Free>("cuMemFree_v2")(address); });
    CHECK_EQ(other_releases, before + by_other);

    CHECK_EQ(
        int(gpu.get<MallocAsync>("cuMemAllocAsync")(&address, MIB, nullptr)),
        0);
    expect_release(gpu, address, MIB, [&] {
        return gpu.get<FreeAsync>("cuMemFreeAsync")(address, nullptr) |
               gpu.get<CUresult()>("cuCtxSynchronize")();
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
    Gpu gpu;
    const SecondUcx other;
    CHECK_EQ(int(other.subscribe(count_release, nullptr)), int(UCS_OK));
    const void *hook = patched_target(gpu.get<void>("cuMemFree_v2"));
    CHECK(other.has(hook));
    install_all();
    expect_releases(gpu, true);
}

// UCM does not know our jump, and leaves it alone.
GPU_TEST(CudaEventsCopies, other_later)
{
    Gpu gpu;
    install_all();
    const SecondUcx other;
    const bool hooked = (other.subscribe(count_release, nullptr) == UCS_OK);
    expect_releases(gpu, hooked);
    install_all(); // again: no effect
    expect_releases(gpu, hooked);
}

// The events of this address that an instance of UCX gets.
struct heard {
    uint64_t address = 0;
    int allocations = 0, releases = 0;
};

void note_event(ucm_event_type_t type, ucm_event_t *event, void *arg)
{
    auto *const by = static_cast<heard *>(arg);

    if (event->mem_type.address == reinterpret_cast<void *>(by->address)) {
        ++(type == UCM_EVENT_MEM_TYPE_FREE ? by->releases : by->allocations);
    } else if ((type == UCM_EVENT_MEM_TYPE_ALLOC) && (by->address == 0)) {
        by->address     = reinterpret_cast<uint64_t>(event->mem_type.address);
        by->allocations = 1;
    }
}

// The second instance has no hooks. Hooks of the first instance's UCM, if any,
// notify only that one; their events are passed on.
GPU_TEST(CudaEventsCopies, other_without_cuda)
{
    Gpu gpu;
    install_all();
    const SecondUcx other;
    heard by;
    CHECK(other.announces(note_event, &by));
    CHECK(add_ucm(other.functions()));

    CUdeviceptr address = gpu.allocate(2 * MIB);
    CHECK_EQ(by.address, uint64_t(address));
    CHECK(by.allocations >= 1);
    CHECK_EQ(by.releases, 0);
    CHECK_EQ(int(gpu.get<Free>("cuMemFree_v2")(address)), 0);
    CHECK(by.releases >= 1);
}

// From 1.17 to 1.20 UCP notes each release, until it is called.
GPU_TEST(CudaEventsCopies, releases_of_what_ucp_does_not_keep)
{
    Gpu gpu;
    install_all();
    const SecondUcx other;
    static ucm_functions functions = other.functions();
    functions.has_cuda             = false;
    CHECK(add_ucm(functions));

    for (const bool kept : {false, true, false, true}) {
        heard by{gpu.allocate(2 * MIB)};
        const heard next{gpu.allocate(2 * MIB)};
        if (kept) {
            note_registered(by.address);
            note_registered(by.address + MIB / 2);
            note_registered(next.address);
        }
        CHECK(other.announces(note_event, &by));
        GPU_CALL(cuMemFree, by.address);
        CHECK_EQ(by.releases > 0, kept);
        CHECK(by.releases + by.allocations > 0);
        CHECK(!take_registered(by.address, 2 * MIB));
        CHECK_EQ(take_registered(next.address, 2 * MIB), kept);
        GPU_CALL(cuMemFree, next.address);
        other.forgets(note_event, &by);
    }
    registers_unseen = true;
    CHECK(take_registered(MIB, 1));
}

// A handler of the first instance may release other memory meanwhile.
GPU_TEST(CudaEventsCopies, a_handler_that_releases)
{
    Gpu gpu;
    CUdeviceptr inner = gpu.allocate(MIB);
    Events events([&] { // called before ours
        return (inner == 0) ? 0 : GPU_TRY(cuMemFree, std::exchange(inner, 0));
    });
    heard by{gpu.allocate(2 * MIB)};
    install_all();
    const SecondUcx other;
    CHECK(other.announces(note_event, &by));
    CHECK(add_ucm(other.functions()));
    GPU_CALL(cuMemFree, by.address);
    CHECK_EQ(inner, CUdeviceptr(0));
    CHECK_EQ(by.releases, 1);
}

WITH_AND_WITHOUT_UCX(CudaEventsCopies);

} // namespace
} // namespace ucx_ib_dmabuf
