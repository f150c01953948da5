// SPDX-License-Identifier: BSD-3-Clause
//
// Every allocation in the hooks and in their installation fails in turn, alone
// and with all later ones. The driver is called all the same, and a release is
// announced, or the hooks are no longer complete.
#include "fake.h"
#include <common/alloc_children.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

// Needs no memory of its own, unlike class Events.
struct {
    SeenEvent seen[64];
    size_t count = 0;
} events;

void note(ucm_event_type_t type, ucm_event_t *event, void *)
{
    CHECK(events.count < std::size(events.seen));
    events.seen[events.count++] = {
        type == UCM_EVENT_MEM_TYPE_FREE,
        reinterpret_cast<uint64_t>(event->mem_type.address),
        event->mem_type.size, 0};
}

void subscribe()
{
    CHECK_EQ(int(all_ucm().front()->set_event_handler(
                 UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE |
                     UCM_EVENT_FLAG_NO_INSTALL,
                 0, note, nullptr)),
             int(UCS_OK));
}

bool released(uint64_t address)
{
    for (size_t i = 0; i < events.count; ++i) {
        const SeenEvent &event = events.seen[i];
        if (event.free &&
            ((event.size == 0) || (address - event.address < event.size))) {
            return true;
        }
    }
    return false;
}

// Expects that a call reaches the driver, and that it releases an address, or
// the hooks are incomplete.
template <class... Args>
void expect_call(const Fake &fake, uint64_t releases, const char *name,
                 Args... args)
{
    const long before = fake.calls(name);
    events.count      = 0;
    fake.call(name, args...);
    CHECK_EQ(fake.calls(name), before + 1);
    CHECK((releases == 0) || released(releases) || !cuda_events_complete());
}

void call_all(const Fake &fake)
{
    uint64_t address, module;
    size_t size;

    expect_call(fake, 0, "cuMemAlloc_v2", &address, NEW_SIZE);
    expect_call(fake, address, "cuMemFree_v2", address);
    expect_call(fake, 0, "cuMemAllocFromPoolAsync", &address, NEW_SIZE, POOL,
                0);
    expect_call(fake, address, "cuMemFreeAsync", address, 0);
    expect_call(fake, address, "cuMemPoolTrimTo", POOL, 0);
    expect_call(fake, 0, "cuLibraryGetModule", &module, LIBRARY);
    expect_call(fake, 0, "cuModuleGetGlobal_v2", &address, &size, module, "a");
    expect_call(fake, address, "cuLibraryUnload", LIBRARY);
    // The context was created after the hooks, so its ranges are announced.
    expect_call(fake, 0, "cuMemAlloc_v2", &address, NEW_SIZE);
    fake.setting("fake_forgotten") = 1;
    fake.setting("fake_active") = fake.setting("fake_last") = 1;
    expect_call(fake, address, "cuDevicePrimaryCtxRelease", 0);
}

// Runs in a child for each allocation that can fail in it.
template <class Run>
void with_each_refused(Run &&run)
{
    CHECK(alloc_faults::each_in_a_child(run) > 3);
    CHECK(!testing::Test::HasFailure());
}

FAKE_TEST(CudaEventsMemory, calls)
{
    Fake fake;
    fake.setting("fake_active") = 0;
    install_all();
    subscribe();
    with_each_refused([&](alloc_faults::plan &what) {
        const alloc_faults::armed now(what);
        call_all(fake);
    });
}

FAKE_TEST(CudaEventsMemory, installation)
{
    Fake fake;
    fake.setting("fake_active") = 0;
    subscribe();
    with_each_refused([&](alloc_faults::plan &what) {
        ucs_status_t status;
        {
            const alloc_faults::armed now(what);
            status = cuda_events_install();
        }
        CHECK((status == UCS_OK) || !cuda_events_complete());
        CHECK(cuda_events_missing().empty() == cuda_events_complete());
        call_all(fake);
        // A repeated installation works, but the hooks stay incomplete.
        CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
        CHECK((status == UCS_OK) || !cuda_events_complete());
        call_all(fake);
    });
}

// The program's allocator calls CUDA, also for the hooks' memory.
HOOKED_TEST(CudaEventsMemory, malloc_calls_cuda)
{
    alarm(60); // ends a deadlock
    static const Fake *used = &fake;
    fake.place(NEW, 0x10000);
    alloc_faults::plan what;
    what.inside = [] { used->call("cuMemFree_v2", used->allocate()); };
    const alloc_faults::armed now(what);
    for (int i = 0; i < 3; ++i) {
        const uint64_t address = fake.allocate();
        note_registered(address);
        fake.call("cuMemFreeAsync", fake.allocate_from(POOL), 0);
        fake.call("cuMemPoolTrimTo", POOL, 0);
        fake.get_global(MODULE);
        fake.call("cuModuleUnload", MODULE);
        fake.call("cuMemFree_v2", address);
        fake.call("cuCtxDestroy_v2", 0);
    }
    CHECK(cuda_events_complete());
}

} // namespace
} // namespace ucx_ib_dmabuf
