// SPDX-License-Identifier: BSD-3-Clause
//
// Every `new` in the hooks and in their installation fails in turn, alone and
// with all later ones. The driver is called all the same, and a release is
// announced, or the hooks are no longer complete.
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"

namespace {

// Number of allocations that still succeed; -1: all.
long allowed  = -1;
bool refused  = false;
bool for_good = false; // later ones fail, too
// Called by each allocation and each deallocation, except within itself.
void (*inside)()            = nullptr;
thread_local bool is_inside = false;

void call_inside()
{
    if ((inside != nullptr) && !is_inside) {
        is_inside = true;
        inside();
        is_inside = false;
    }
}

} // namespace

// Not inlined, as the compiler would warn of free().
__attribute__((noinline)) void *operator new(size_t size)
{
    if ((allowed >= 0) && (allowed-- == 0)) {
        allowed = for_good ? 0 : -1;
        refused = true;
        throw std::bad_alloc();
    }
    call_inside();
    if (void *memory = malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

__attribute__((noinline)) void operator delete(void *memory) noexcept
{
    call_inside();
    free(memory);
}

__attribute__((noinline)) void operator delete(void *memory, size_t) noexcept
{
    operator delete(memory);
}

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

// Expects that a call reaches the driver, and that its release is announced, or
// the hooks are incomplete.
template <class Call>
void expect_call(const Fake &fake, const char *name, uint64_t releases,
                 Call &&call)
{
    const long before = fake.calls(name);
    events.count      = 0;
    call();
    CHECK_EQ(fake.calls(name), before + 1);
    if ((releases != 0) && !released(releases)) {
        CHECK(!cuda_events_complete());
    }
}

void call_all(const Fake &fake)
{
    constexpr uint64_t POOL = 0xabc0, LIBRARY = 0x90;
    uint64_t address, module;
    size_t size;

    expect_call(fake, "cuMemAlloc_v2", 0,
                [&] { fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000); });
    expect_call(fake, "cuMemFree_v2", address,
                [&] { fake.get<Call1>("cuMemFree_v2")(address); });
    expect_call(fake, "cuMemAllocFromPoolAsync", 0, [&] {
        fake.get<Alloc4>("cuMemAllocFromPoolAsync")(&address, 0x5000, POOL, 0);
    });
    expect_call(fake, "cuMemFreeAsync", address,
                [&] { fake.get<Call2>("cuMemFreeAsync")(address, 0); });
    expect_call(fake, "cuMemPoolTrimTo", address,
                [&] { fake.get<Call2>("cuMemPoolTrimTo")(POOL, 0); });
    expect_call(fake, "cuLibraryGetModule", 0, [&] {
        fake.get<int(uint64_t *, uint64_t)>("cuLibraryGetModule")(&module,
                                                                  LIBRARY);
    });
    expect_call(fake, "cuModuleGetGlobal_v2", 0, [&] {
        fake.get<GetGlobal>("cuModuleGetGlobal_v2")(&address, &size, module,
                                                    "a");
    });
    expect_call(fake, "cuLibraryUnload", address,
                [&] { fake.get<Call1>("cuLibraryUnload")(LIBRARY); });

    // The hooks saw the context's creation, so its ranges are announced.
    fake.setting("fake_active") = 0;
    expect_call(fake, "cuDevicePrimaryCtxRetain", 0, [&] {
        fake.get<int(void *, int)>("cuDevicePrimaryCtxRetain")(&address, 0);
    });
    expect_call(fake, "cuMemAlloc_v2", 0,
                [&] { fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000); });
    fake.setting("fake_forgotten") = 1;
    expect_call(fake, "cuDevicePrimaryCtxRelease", address,
                [&] { fake.get<Device>("cuDevicePrimaryCtxRelease")(0); });
}

// Runs 'body' in a child for each allocation that can fail in it.
template <class Body>
void with_each_refused(Body &&body)
{
    constexpr int NONE_REFUSED = 7;
    for (const bool follow : {false, true}) {
        int status = 0, n = 0;
        for (; status == 0; ++n) {
            const pid_t child = fork();
            if (child == 0) {
                for_good = follow;
                allowed  = n;
                body();
                _exit(refused ? 0 : NONE_REFUSED);
            }
            waitpid(child, &status, 0);
            if ((status != 0) && (WEXITSTATUS(status) != NONE_REFUSED)) {
                check_failed(__FILE__, __LINE__, "allocation",
                             std::to_string(n) + ": status " +
                                 std::to_string(status));
            }
        }
        CHECK(n > 3); // some were refused
    }
}

FAKE_TEST(CudaEventsMemory, calls)
{
    Fake fake;
    install_all();
    subscribe();
    with_each_refused([&] { call_all(fake); });
}

FAKE_TEST(CudaEventsMemory, installation)
{
    Fake fake;
    subscribe();
    with_each_refused([&] {
        const ucs_status_t status = cuda_events_install();
        CHECK((status == UCS_OK) || !cuda_events_complete());
        allowed = -1;
        CHECK(cuda_events_missing().empty() == cuda_events_complete());
        call_all(fake);
        // A repeated installation works, but the hooks stay incomplete.
        CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
        CHECK(!refused || !cuda_events_complete());
        call_all(fake);
    });
}

// The program's allocator calls CUDA, also for the hooks' memory.
FAKE_TEST(CudaEventsMemory, malloc_calls_cuda)
{
    alarm(60); // ends a deadlock
    static Fake fake;
    fake.place(NEW, 0x10000);
    install_all();
    inside = [] {
        uint64_t address;
        fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
        fake.get<Call1>("cuMemFree_v2")(address);
    };
    uint64_t address, pooled;
    size_t size;
    for (int i = 0; i < 3; ++i) {
        fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
        note_registered(address);
        fake.get<Alloc4>("cuMemAllocFromPoolAsync")(&pooled, 0x5000, 7, 0);
        fake.get<Call2>("cuMemFreeAsync")(pooled, 0);
        fake.get<Call2>("cuMemPoolTrimTo")(7, 0);
        fake.get<GetGlobal>("cuModuleGetGlobal_v2")(&pooled, &size, 9, "a");
        fake.get<Call1>("cuModuleUnload")(9);
        fake.get<Call1>("cuMemFree_v2")(address);
        fake.get<Call1>("cuCtxDestroy_v2")(0);
    }
    CHECK(cuda_events_complete());
    inside = nullptr;
}

} // namespace
} // namespace ucx_ib_dmabuf
