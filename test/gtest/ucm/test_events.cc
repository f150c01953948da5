// SPDX-License-Identifier: BSD-3-Clause
//
// The hooks on a driver library that does nothing (fake_cuda.c): which events
// they announce, and when, and what they must avoid inside the program's call.
// UCX's own CUDA module is kept out; test_events_sim.cc tests with it, and on
// the simulated GPU.
#include "fake.h"
#include <atomic>
#include <common/elsewhere.h>
#include <csetjmp>
#include <gtest/gtest.h>
#include <thread>
#include <ucm/code_patch.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

FAKE_TEST(CudaEvents, no_driver)
{
    EXPECT_EQ(cuda_events_install(), UCS_ERR_UNSUPPORTED);
    EXPECT_FALSE(cuda_events_complete());
    EXPECT_FALSE(cuda_events_missing().empty());
    Fake fake; // loaded later
    install_all();
}

FAKE_TEST(CudaEvents, every_pointer_and_range)
{
    struct {
        const char *name;
        size_t size; // 0: the call has none
        int (*call)(uint64_t, uint64_t);
    } all[] = {{"cuMemFree_v2", 0, nullptr},
               {"cuIpcCloseMemHandle", 0, nullptr},
               {"cuMemFreeHost", 0, nullptr},
               {"cuMemFreeAsync", 0, nullptr},
               {"cuMemFreeAsync_ptsz", 0, nullptr},
               {"cuMemUnmap", 0x200000, nullptr},
               {"cuMemAddressFree", 0x400000, nullptr}};
    Fake fake;
    // Looked up before the hooks, which patch the functions' bodies.
    for (auto &each : all) {
        each.call = fake.get<int(uint64_t, uint64_t)>(each.name);
    }
    Events probes;
    install_all();
    EXPECT_EQ(cuda_events_install(), UCS_OK); // again: no effect
    EXPECT_TRUE(probes.take().empty());

    for (const auto &each : all) {
        expect_release(fake, each.name, ADDRESS, each.size ? each.size : SIZE,
                       [&] { EXPECT_EQ(each.call(ADDRESS, each.size), 0); });
    }
    EXPECT_EQ(probes.take().size(), std::size(all));
    for (const auto &each : all) { // these free nothing
        each.call((each.size == 0) ? 0 : ADDRESS, 0);
    }
    EXPECT_TRUE(probes.take().empty());
}

FAKE_TEST(CudaEvents, inner_entry_points)
{
    Fake fake;
    void *inner = nullptr, *inner_async = nullptr;
    EXPECT_EQ(
        fake.call("cuGetProcAddress_v2", "cuMemFree", &inner, 12000, 1, 0), 0);
    EXPECT_EQ(fake.call("cuGetProcAddress_v2", "cuMemFreeAsync", &inner_async,
                        12000, 2, 0),
              0);
    install_all();
    expect_release(fake, "fake_inner_free", ADDRESS, SIZE, [&] {
        reinterpret_cast<int (*)(uint64_t)>(inner)(ADDRESS);
    });
    expect_release(fake, "fake_inner_free_async", ADDRESS, SIZE, [&] {
        reinterpret_cast<int (*)(uint64_t, uint64_t)>(inner_async)(ADDRESS, 0);
    });
}

// Sizes of announced allocations are not queried again; others are.
HOOKED_TEST(CudaEvents, sizes)
{
    Events events;
    EXPECT_EQ(fake.allocate(), NEW);
    const auto seen = events.take();
    EXPECT_EQ(seen.size(), 1u);
    EXPECT_TRUE(!seen[0].free && (seen[0].address == NEW));
    EXPECT_EQ(seen[0].size, NEW_SIZE);

    const long asked = fake.calls("cuPointerGetAttribute");
    expect_release_by(fake, "cuMemFree_v2", NEW, NEW_SIZE, NEW);
    EXPECT_EQ(fake.calls("cuPointerGetAttribute"), asked);
    expect_release_by(fake, "cuMemFree_v2", ADDRESS, SIZE, ADDRESS);
    // An address inside an allocation releases all of it.
    expect_release_by(fake, "cuIpcCloseMemHandle", ADDRESS, SIZE,
                      ADDRESS + 0x1000);
    fake.setting("fake_forgotten") = 1;
    expect_release_by(fake, "cuMemFree_v2", ADDRESS, 1, ADDRESS);
}

// If the driver refuses, UCX must not take the memory for host memory.
HOOKED_TEST(CudaEvents, refused)
{
    fake.allocate();
    fake.setting("fake_result") = 1;
    Events events;
    EXPECT_EQ(fake.call("cuMemFree_v2", NEW), 1);
    const auto seen = events.take();
    EXPECT_EQ(seen.size(), 2u);
    EXPECT_TRUE(seen[0].free && !seen[1].free);
    EXPECT_EQ(seen[1].address, NEW);
    EXPECT_EQ(seen[1].size, NEW_SIZE);
    fake.call("cuMemAddressFree", ADDRESS, 0x1000);
    EXPECT_EQ(events.take().size(), 2u);
    fake.setting("fake_forgotten") = 1; // no CUDA memory at all
    fake.call("cuMemFree_v2", ADDRESS);
    EXPECT_EQ(events.take().size(), 2u);
    fake.allocate();
    EXPECT_TRUE(events.take().empty());
}

void use_without_hooks()
{
    Fake fake;
    EXPECT_EQ(cuda_events_install(), UCS_OK);
    EXPECT_FALSE(cuda_events_complete());
    EXPECT_NE(cuda_events_missing().find("HOOK_MODE"), std::string::npos);
    EXPECT_EQ(ucm::patched_target(symbol_of(fake.library, "cuMemFree_v2")),
              nullptr);
}

TEST(CudaEvents, HooksOff)
{
    for (const char *setting :
         {"UCX_MEM_EVENTS=n", "UCX_MEM_CUDA_HOOK_MODE=none",
          "UCX_MEM_CUDA_HOOK_MODE=reloc"}) { // this mode sees calls by name
        SCOPED_TRACE(setting);
        run_alone(use_without_hooks, {WITHOUT_UCX_HOOKS, setting});
    }
}

FAKE_TEST(CudaEvents, function_that_cannot_be_patched)
{
    Fake fake("fake_odd");
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(cuda_events_install(), UCS_OK);
        EXPECT_FALSE(cuda_events_complete());
        EXPECT_EQ(cuda_events_missing(),
                  "cuMemUnmap: its first instructions are not "
                  "known here");
    }
    static std::string reported; // also to a late subscriber
    cuda_events_on_incomplete([](const char *why, void *) { reported = why; },
                              nullptr);
    EXPECT_EQ(reported, cuda_events_missing());
    EXPECT_EQ(fake.call("cuMemUnmap", ADDRESS, SIZE), 0);
    expect_release_by(fake, "cuMemFree_v2", ADDRESS, SIZE, ADDRESS);
}

FAKE_TEST(CudaEvents, old_driver)
{
    Fake fake("fake_old");
    install_all();
    expect_release_by(fake, "cuMemFree_v2", ADDRESS, SIZE, ADDRESS);
}

// A child of fork neither hangs on locks of its parent's threads, nor misses
// announcements.
HOOKED_TEST(CudaEvents, forked)
{
    // Looked up here: in the child the dynamic loader's lock may be held.
    auto *allocate =
        fake.get<int(uint64_t *, size_t, uint64_t)>("cuMemAllocAsync");
    auto *release         = fake.get<int(uint64_t, uint64_t)>("cuMemFreeAsync");
    const auto use_memory = [&] {
        uint64_t address;
        allocate(&address, SIZE, 0);
        release(address, 0);
    };
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            use_memory();
        }
    });
    static std::atomic<int> frees;
    all_ucm().front()->set_event_handler(
        UCM_EVENT_MEM_TYPE_FREE | UCM_EVENT_FLAG_NO_INSTALL, 0,
        [](ucm_event_type_t, ucm_event_t *, void *) { ++frees; }, nullptr);
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(in_child([&] {
            alarm(60); // ends a deadlock
            frees = 0;
            use_memory();
            release(ADDRESS, 0);
            return frees == 2;
        }));
    }
    stop = true;
    busy.join();
}

// UCM does not know the fake's prologues, and gives up at the first one.
TEST(CudaEvents, UcxGivesUpHalfWay)
{
    run_alone(alone_every_pointer_and_range, {});
}

// The hooks' queries must not invalidate a stream's capture, and the program's
// own call keeps its mode.
FAKE_TEST(CudaEventsInside, stream_captures)
{
    Fake fake;
    int &invalidated = fake.setting("fake_invalidated");

    fake.setting("fake_global_capture") = 1;
    install_all();
    EXPECT_EQ(invalidated, 0);
    // Each of these invalidates it once itself.
    expect_release_by(fake, "cuMemFreeAsync", ADDRESS, SIZE, ADDRESS, 5);
    EXPECT_EQ(invalidated, 1);
    fake.call("cuCtxDestroy_v2", 0);
    EXPECT_EQ(invalidated, 2);
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    EXPECT_EQ(invalidated, 3);
    fake.allocate();
    EXPECT_EQ(invalidated, 4);
    fake.setting("fake_forgotten") = 1;
    fake.call("cuCtxDestroy_v2", 0);
    EXPECT_EQ(invalidated, 5);
    fake.call("cuGreenCtxDestroy", 0);
    EXPECT_EQ(invalidated, 6);
}

// The check of the hooks calls no function that has an effect or fails.
HOOKED_TEST(CudaEventsInside, nothing_is_tried)
{
    for (const char *name :
         {"cuMemFree_v2", "cuMemFreeHost", "cuMemAddressFree",
          "cuIpcCloseMemHandle", "cuDevicePrimaryCtxRelease",
          "cuDevicePrimaryCtxReset", "cuCtxDestroy_v2"}) {
        EXPECT_EQ(fake.calls(name), 0L);
    }
}

// UCX's hook of cudaMalloc announces what the driver's hook has announced.
HOOKED_TEST(CudaEventsInside, the_event_of_the_runtime_is_a_repetition)
{
    ucm_event_t event{};
    event.mem_type.address = reinterpret_cast<void *>(fake.allocate());
    event.mem_type.size    = NEW_SIZE;
    EXPECT_TRUE(cuda_event_is_repeated(UCM_EVENT_MEM_TYPE_ALLOC, event));
    EXPECT_FALSE(cuda_event_is_repeated(UCM_EVENT_MEM_TYPE_FREE, event));
    fake.allocate_async();
    EXPECT_FALSE(cuda_event_is_repeated(UCM_EVENT_MEM_TYPE_ALLOC, event));
}

sigjmp_buf outside;

bool is_called(const char *name)
{
    return (std::string(name) == "cuMemFree_v2") ||
           (std::string(name) == "cuMemAlloc_v2");
}

void jump_out(const char *name)
{
    if (is_called(name)) {
        siglongjmp(outside, 1);
    }
}

[[maybe_unused]] void throw_out(const char *name)
{
    if (is_called(name)) {
        throw 1;
    }
}

// Calls at this depth of the stack, and leaves most of the stack's old content.
void at_depth(int depth, const std::function<void()> &call)
{
    volatile char frame[512];
    frame[0] = 0;
    if (depth > 0) {
        at_depth(depth - 1, call);
    } else {
        call();
    }
    frame[1] = frame[0];
}

// A jump out of the driver, as by an interrupt in Python or Julia, skips the
// rest of the active hooks. Later calls are seen as usual.
HOOKED_TEST(CudaEventsInside, jumps_out_of_the_driver)
{
    const std::function<void()> release = [&] {
        fake.call("cuMemFree_v2", ADDRESS);
    };
    const std::function<void()> allocate = [&] { fake.allocate(); };
    auto &inside = fake.setting<void (*)(const char *)>("fake_inside");
    Events events;
    const auto expect_seen = [&] {
        inside = nullptr;
        for (int depth : {0, 1, 9, 0}) {
            events.take();
            at_depth(depth, release);
            EXPECT_EQ(events.frees_of(ADDRESS), 1u);
            at_depth(depth, allocate);
            EXPECT_EQ(events.take().size(), 1u);
        }
    };
    const auto expect_harmless = [&](const std::function<void()> &call) {
        inside = jump_out;
        if (sigsetjmp(outside, 0) == 0) {
            at_depth(4, call);
            ADD_FAILURE();
        }
        expect_seen();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        // A sanitizer's function begins with a call. The copy of the call has
        // no unwind tables, so no exception can pass it.
        inside = throw_out;
        try {
            at_depth(4, call);
            ADD_FAILURE();
        } catch (int) {
        }
        expect_seen();
#endif
    };
    expect_harmless(release);
    expect_harmless(allocate);
}

// If the driver is out of memory, and the handler frees some, the call is
// repeated once. Allocations within the handler are not.
HOOKED_TEST(CudaEventsInside, no_memory_left)
{
    constexpr int FULL      = 2;
    static const Fake *used = &fake;
    static int asked = 0, given = 0; // there is memory if given > 1
    int &result         = fake.setting("fake_result");
    const auto allocate = [&](const char *name) {
        uint64_t address;
        return fake.call(name, &address, NEW_SIZE, 0, 0);
    };
    const auto expect = [&](const char *name, int answer, int more_calls) {
        const long before = fake.calls(name);
        asked             = 0;
        result            = FULL;
        EXPECT_EQ(allocate(name), answer);
        EXPECT_EQ(fake.calls(name), before + more_calls);
    };
    const char *names[] = {"cuMemAlloc_v2",        "cuMemAllocAsync",
                           "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync",
                           "cuMemCreate",          "cuArrayCreate_v2",
                           "cuArray3DCreate_v2",   "cuMipmappedArrayCreate"};
    for (const char *name : names) {
        expect(name, FULL, 1); // no handler yet
    }
    cuda_events_subscribe(
        {.out_of_memory =
             [](void *arg) {
                 EXPECT_TRUE(arg == &given);
                 EXPECT_EQ(++asked, 1); // not for allocations in here
                 used->allocate();
                 used->setting("fake_result") = (given > 1) ? 0 : FULL;
                 return given != 0;
             },
         .arg = &given});
    for (const char *name : names) {
        const int also = (name == names[0]); // the handler's own call
        given          = 0;
        expect(name, FULL, 1 + also);
        given = 1;
        expect(name, FULL, 2 + also);
        given = 2;
        Events events;
        expect(name, 0, 2 + also);
        EXPECT_EQ(asked, 1);
        const size_t announced = std::string(name).starts_with("cuMemAlloc");
        EXPECT_EQ(events.take().size(), announced);
        EXPECT_EQ(allocate(name), 0);
        EXPECT_EQ(asked, 1); // there is memory
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
