// SPDX-License-Identifier: BSD-3-Clause
//
// Two instances of UCX in one process, as with a Python package: both hook the
// same functions of the driver, in either order, and each subscriber must get
// each release.
#include "gpu.h"
#include "second_ucx.h"
#include <gtest/gtest.h>
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

void expect_releases(bool by_other)
{
    const long before   = other_releases;
    CUdeviceptr address = allocate(2 * MIB);
    expect_release(address, 2 * MIB,
                   [&] { return GPU_TRY(cuMemFree, address); });
    CHECK_EQ(other_releases, before + by_other);

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
    CHECK_EQ(int(other.subscribe(count_release, nullptr)), int(UCS_OK));
    CHECK(other.has(patched_target(gpu::entry<void>("cuMemFree_v2"))));
    install_all();
    expect_releases(true);
}

// UCM does not know our jump, and leaves it alone.
GPU_TEST(CudaEventsCopies, other_later)
{
    install_all();
    const SecondUcx other;
    const bool hooked = (other.subscribe(count_release, nullptr) == UCS_OK);
    expect_releases(hooked);
    install_all(); // again: no effect
    expect_releases(hooked);
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

void listen(const SecondUcx &to, heard *by)
{
    CHECK_EQ(int(to.subscribe(note_event, by, UCM_EVENT_FLAG_NO_INSTALL)),
             int(UCS_OK));
}

// The second instance has no hooks. Hooks of the first instance's UCM, if any,
// notify only that one; their events are passed on.
GPU_TEST(CudaEventsCopies, other_without_cuda)
{
    install_all();
    const SecondUcx other;
    heard by;
    listen(other, &by);
    CHECK(add_ucm(other.functions()));

    CUdeviceptr address = allocate(2 * MIB);
    CHECK_EQ(by.address, uint64_t(address));
    CHECK(by.allocations >= 1);
    CHECK_EQ(by.releases, 0);
    GPU_CALL(cuMemFree, address);
    CHECK(by.releases >= 1);
}

// From 1.17 to 1.20 UCP notes each release, until it is called.
GPU_TEST(CudaEventsCopies, releases_of_what_ucp_does_not_keep)
{
    install_all();
    const SecondUcx other;
    static ucm_functions functions = other.functions();
    functions.has_cuda             = false;
    CHECK(add_ucm(functions));

    for (const bool kept : {false, true, false, true}) {
        heard by{allocate(2 * MIB)};
        const heard next{allocate(2 * MIB)};
        if (kept) {
            note_registered(by.address);
            note_registered(by.address + MIB / 2);
            note_registered(next.address);
        }
        listen(other, &by);
        GPU_CALL(cuMemFree, by.address);
        CHECK_EQ(by.releases > 0, kept);
        CHECK(by.releases + by.allocations > 0);
        CHECK(!take_registered(by.address, 2 * MIB));
        CHECK_EQ(take_registered(next.address, 2 * MIB), kept);
        GPU_CALL(cuMemFree, next.address);
        other.unsubscribe(note_event, &by);
    }
    registers_unseen = true;
    CHECK(take_registered(MIB, 1));
}

// A handler of the first instance may release other memory meanwhile.
GPU_TEST(CudaEventsCopies, a_handler_that_releases)
{
    CUdeviceptr inner = allocate(MIB);
    Events events([&] { // called before ours
        return (inner == 0) ? 0 : GPU_TRY(cuMemFree, std::exchange(inner, 0));
    });
    heard by{allocate(2 * MIB)};
    install_all();
    const SecondUcx other;
    listen(other, &by);
    CHECK(add_ucm(other.functions()));
    GPU_CALL(cuMemFree, by.address);
    CHECK_EQ(inner, CUdeviceptr(0));
    CHECK_EQ(by.releases, 1);
}

WITH_AND_WITHOUT_UCX(CudaEventsCopies);

} // namespace
} // namespace ucx_ib_dmabuf
