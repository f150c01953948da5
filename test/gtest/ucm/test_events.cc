// SPDX-License-Identifier: BSD-3-Clause
//
// The hooks on a driver library that does nothing (fake_cuda.c): which events
// they announce, and when. UCX's own CUDA module is kept out;
// test_events_sim.cc tests with it, and on the simulated GPU.
#include <atomic>
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include "fake.h"
#include <ucm/code_patch.h>

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
    Fake fake;
    // Looked up before the hooks, which patch the functions' bodies.
    struct {
        const char *name;
        Call1 *call;
    } one[] = {{"cuMemFree_v2", nullptr},
               {"cuIpcCloseMemHandle", nullptr},
               {"cuMemFreeHost", nullptr}};
    struct {
        const char *name;
        Call2 *call;
        size_t size;
    } two[] = {{"cuMemFreeAsync", nullptr, 0},
               {"cuMemFreeAsync_ptsz", nullptr, 0},
               {"cuMemUnmap", nullptr, 0x200000},
               {"cuMemAddressFree", nullptr, 0x400000}};
    for (auto &test : one) {
        test.call = fake.get<Call1>(test.name);
    }
    for (auto &test : two) {
        test.call = fake.get<Call2>(test.name);
    }

    Events probes;
    install_all();
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK)); // again: no effect
    CHECK(probes.take().empty());

    for (auto &test : one) {
        expect_release(fake, test.name, ADDRESS, SIZE,
                       [&] { CHECK_EQ(test.call(ADDRESS), 0); });
    }
    for (auto &test : two) {
        expect_release(fake, test.name, ADDRESS, test.size ? test.size : SIZE,
                       [&] { CHECK_EQ(test.call(ADDRESS, test.size), 0); });
    }
    CHECK(probes.take().size() == 7);
    for (auto &test : one) { // these free nothing
        test.call(0);
    }
    for (auto &test : two) {
        test.call((test.size == 0) ? 0 : ADDRESS, 0);
    }
    CHECK(probes.take().empty());
}

FAKE_TEST(CudaEvents, inner_entry_points)
{
    Fake fake;
    auto *get   = fake.get<GetProc>("cuGetProcAddress_v2");
    void *inner = nullptr, *inner_async = nullptr;
    CHECK_EQ(get("cuMemFree", &inner, 12000, 1, nullptr), 0);
    CHECK_EQ(get("cuMemFreeAsync", &inner_async, 12000, 2, nullptr), 0);
    install_all();
    expect_release(fake, "fake_inner_free", ADDRESS, SIZE,
                   [&] { reinterpret_cast<Call1 *>(inner)(ADDRESS); });
    expect_release(fake, "fake_inner_free_async", ADDRESS, SIZE,
                   [&] { reinterpret_cast<Call2 *>(inner_async)(ADDRESS, 0); });
}

// Sizes of announced allocations are not queried again; others are.
FAKE_TEST(CudaEvents, sizes)
{
    Fake fake;
    install_all();
    Events events;
    uint64_t address;
    CHECK_EQ(fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000), 0);
    auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(1));
    CHECK(!seen[0].free && (seen[0].address == NEW));
    CHECK_EQ(seen[0].size, size_t(0x5000));

    const long asked = fake.calls("cuMemGetAddressRange_v2");
    expect_release(fake, "cuMemFree_v2", NEW, 0x5000,
                   [&] { fake.get<Call1>("cuMemFree_v2")(NEW); });
    CHECK_EQ(fake.calls("cuMemGetAddressRange_v2"), asked);
    // An address inside an allocation releases all of it.
    expect_release(fake, "cuIpcCloseMemHandle", ADDRESS, SIZE, [&] {
        fake.get<Call1>("cuIpcCloseMemHandle")(ADDRESS + 0x1000);
    });
    fake.setting("fake_no_context") = 1; // another query works
    expect_release(fake, "cuMemFree_v2", ADDRESS, SIZE,
                   [&] { fake.get<Call1>("cuMemFree_v2")(ADDRESS); });
    fake.setting("fake_forgotten") = 1;
    expect_release(fake, "cuMemFree_v2", ADDRESS, 1,
                   [&] { fake.get<Call1>("cuMemFree_v2")(ADDRESS); });
}

// If the driver refuses, UCX must not take the memory for host memory.
FAKE_TEST(CudaEvents, refused)
{
    Fake fake;
    install_all();
    uint64_t address;
    fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
    fake.setting("fake_result") = 1;
    Events events;
    CHECK_EQ(fake.get<Call1>("cuMemFree_v2")(NEW), 1);
    auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(2));
    CHECK(seen[0].free && !seen[1].free);
    CHECK(seen[1].address == NEW);
    CHECK_EQ(seen[1].size, size_t(0x5000));
    fake.get<Call2>("cuMemAddressFree")(ADDRESS, 0x1000);
    CHECK_EQ(events.take().size(), size_t(2));
    fake.setting("fake_forgotten") = 1; // no CUDA memory at all
    fake.get<Call1>("cuMemFree_v2")(ADDRESS);
    CHECK_EQ(events.take().size(), size_t(2));
    fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
    CHECK(events.take().empty());
}

TEST(CudaEvents, EventsOff)
{
    EXPECT_TRUE(run_on_fake("hooks_off", "UCX_MEM_EVENTS=n"));
}

FAKE_TEST(CudaEvents, hooks_off, "UCX_MEM_CUDA_HOOK_MODE=none")
{
    Fake fake;
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK(!cuda_events_complete());
    CHECK(cuda_events_missing().find("HOOK_MODE") != std::string::npos);
    CHECK(ucm::patched_target(symbol_of(fake.library, "cuMemFree_v2")) ==
          nullptr);
}

FAKE_TEST(CudaEvents, by_relocation, "UCX_MEM_CUDA_HOOK_MODE=reloc")
{
    Fake fake;
    auto *call = function_of<Call1>(open_fake("fake/caller.so"), "call_free");
    CHECK_EQ(call(0), 0); // bound before the hooks
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK(!cuda_events_complete());
    CHECK(cuda_events_missing().find("cuMemFree_v2") != std::string::npos);
    expect_release(fake, "cuMemFree_v2", ADDRESS, SIZE, [&] { call(ADDRESS); });
    Events events; // this mode cannot see such calls
    fake.get<Call1>("cuMemFree_v2")(ADDRESS);
    CHECK(events.take().empty());
}

FAKE_TEST(CudaEvents, function_that_cannot_be_patched)
{
    Fake fake("fake_odd");
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK(!cuda_events_complete());
    const std::string missing = cuda_events_missing();
    CHECK_EQ(missing, std::string("cuMemUnmap: its first instructions are not "
                                  "known here"));
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK_EQ(cuda_events_missing(), missing);
    CHECK_EQ(fake.get<Call2>("cuMemUnmap")(ADDRESS, SIZE), 0);
    expect_release(fake, "cuMemFree_v2", ADDRESS, SIZE,
                   [&] { fake.get<Call1>("cuMemFree_v2")(ADDRESS); });
}

FAKE_TEST(CudaEvents, old_driver)
{
    Fake fake("fake_old");
    install_all();
    expect_release(fake, "cuMemFree_v2", ADDRESS, SIZE,
                   [&] { fake.get<Call1>("cuMemFree_v2")(ADDRESS); });
}

// A child of fork neither hangs on locks of its parent's threads, nor misses
// announcements.
FAKE_TEST(CudaEvents, forked)
{
    Fake fake;
    install_all();
    auto *allocate = fake.get<Alloc3>("cuMemAllocAsync");
    auto *release  = fake.get<Call2>("cuMemFreeAsync");
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        uint64_t address;
        while (!stop) {
            allocate(&address, SIZE, 0);
            release(address, 0);
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
            uint64_t address;
            allocate(&address, SIZE, 0);
            release(address, 0);
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
