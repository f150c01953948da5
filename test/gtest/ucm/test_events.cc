// SPDX-License-Identifier: BSD-3-Clause
//
// The hooks on a driver library that does nothing (fake_cuda.c): which events
// they announce, and when. UCX's own CUDA module is kept out;
// test_events_sim.cc tests with it, and on the simulated GPU.
#include "fake.h"
#include <atomic>
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <thread>
#include <ucm/code_patch.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

FAKE_TEST(CudaEvents, no_driver)
{
    CHECK_EQ(int(cuda_events_install()), int(UCS_ERR_UNSUPPORTED));
    CHECK(!cuda_events_complete());
    CHECK(!cuda_events_missing().empty());
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
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK)); // again: no effect
    CHECK(probes.take().empty());

    for (const auto &each : all) {
        expect_release(fake, each.name, ADDRESS, each.size ? each.size : SIZE,
                       [&] { CHECK_EQ(each.call(ADDRESS, each.size), 0); });
    }
    CHECK_EQ(probes.take().size(), std::size(all));
    for (const auto &each : all) { // these free nothing
        each.call((each.size == 0) ? 0 : ADDRESS, 0);
    }
    CHECK(probes.take().empty());
}

FAKE_TEST(CudaEvents, inner_entry_points)
{
    Fake fake;
    void *inner = nullptr, *inner_async = nullptr;
    CHECK_EQ(fake.call("cuGetProcAddress_v2", "cuMemFree", &inner, 12000, 1, 0),
             0);
    CHECK_EQ(fake.call("cuGetProcAddress_v2", "cuMemFreeAsync", &inner_async,
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
    CHECK_EQ(fake.allocate(), NEW);
    const auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(1));
    CHECK(!seen[0].free && (seen[0].address == NEW));
    CHECK_EQ(seen[0].size, NEW_SIZE);

    const long asked = fake.calls("cuPointerGetAttribute");
    expect_release_by(fake, "cuMemFree_v2", NEW, NEW_SIZE, NEW);
    CHECK_EQ(fake.calls("cuPointerGetAttribute"), asked);
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
    CHECK_EQ(fake.call("cuMemFree_v2", NEW), 1);
    const auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(2));
    CHECK(seen[0].free && !seen[1].free);
    CHECK(seen[1].address == NEW);
    CHECK_EQ(seen[1].size, NEW_SIZE);
    fake.call("cuMemAddressFree", ADDRESS, 0x1000);
    CHECK_EQ(events.take().size(), size_t(2));
    fake.setting("fake_forgotten") = 1; // no CUDA memory at all
    fake.call("cuMemFree_v2", ADDRESS);
    CHECK_EQ(events.take().size(), size_t(2));
    fake.allocate();
    CHECK(events.take().empty());
}

TEST(CudaEvents, HooksOff)
{
    for (const char *setting :
         {"UCX_MEM_EVENTS=n", "UCX_MEM_CUDA_HOOK_MODE=none",
          "UCX_MEM_CUDA_HOOK_MODE=reloc"}) { // this mode sees calls by name
        EXPECT_TRUE(run_on_fake("hooks_off", setting)) << setting;
    }
}

SCENARIO(hooks_off)
{
    Fake fake;
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK(!cuda_events_complete());
    CHECK(cuda_events_missing().find("HOOK_MODE") != std::string::npos);
    CHECK(ucm::patched_target(symbol_of(fake.library, "cuMemFree_v2")) ==
          nullptr);
}

FAKE_TEST(CudaEvents, function_that_cannot_be_patched)
{
    Fake fake("fake_odd");
    for (int i = 0; i < 2; ++i) {
        CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
        CHECK(!cuda_events_complete());
        CHECK_EQ(cuda_events_missing(),
                 std::string("cuMemUnmap: its first instructions are not "
                             "known here"));
    }
    CHECK_EQ(fake.call("cuMemUnmap", ADDRESS, SIZE), 0);
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
        CHECK(in_child([&] {
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
    EXPECT_TRUE(run_scenario("every_pointer_and_range"));
}

} // namespace
} // namespace ucx_ib_dmabuf
