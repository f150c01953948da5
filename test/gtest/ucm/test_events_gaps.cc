// SPDX-License-Identifier: BSD-3-Clause
//
// Missing hooks, on the driver library that does nothing: which cases count as
// such, and which subscribers are notified. One case is a lack of host memory:
// every allocation in the hooks and in their installation fails in turn, alone
// and with all later ones. The driver is called all the same, and a release is
// announced, or the hooks are no longer complete.
#include "fake.h"
#include <algorithm>
#include <common/alloc_children.h>
#include <common/breakpoint.h>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <regex>
#include <set>
#include <ucm/hook_table.h>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

// The notifications of the subscriber.
struct Reported {
    Reported() { cuda_events_on_incomplete(note, this); }

    static void note(const char *why, void *arg)
    {
        auto *self = static_cast<Reported *>(arg);
        ++self->times;
        self->why = why;
        EXPECT_EQ(cuda_events_missing(), self->why); // no lock is held
    }

    int times = 0;
    std::string why;
};

HOOKED_TEST(CudaEventsGaps, old_entry_point)
{
    const long before = fake.calls("cuMemFree_v2");
    Events events([&] { return fake.calls("cuMemFree_v2"); });
    fake.call("cuMemFree", ADDRESS);
    const auto seen = events.take();
    EXPECT_EQ(seen.size(), 2u); // this function's, and its target's
    for (const SeenEvent &event : seen) {
        EXPECT_TRUE(event.free && (event.address == ADDRESS) &&
                    (event.context == before) && (event.size == SIZE));
    }
}

// Every variant of a hooked function that a program of any CUDA may request.
TEST(CudaEventsGaps, EveryVariantOfCudasHeader)
{
    std::set<std::string> rows, names, wanted, there;
    for (const auto &row : ucm::hooked_functions()) {
        const std::string symbol = row.symbol;
        const bool per_thread    = symbol.ends_with("_ptsz");
        const std::string name   = symbol.substr(0, symbol.find('_'));
        names.insert(name);
        rows.insert(name + "_v" + std::to_string(row.since) +
                    (per_thread ? "_ptsz" : ""));
    }
    std::ifstream header(variable("CUDA_DIR") + "/include/cudaTypedefs.h");
    const std::regex variant(R"(\*PFN_((cu\w+)_v(\d+)(_ptsz)?)\))");
    for (std::string line; std::getline(header, line);) {
        std::smatch is;
        if (std::regex_search(line, is, variant) && names.contains(is[2])) {
            there.insert(is[1]);
            if (stoi(is[3]) >= 3020) { // before, pointers had 32 bits
                wanted.insert(is[1]);
            }
        }
    }
    EXPECT_GT(wanted.size(), 30U);
    std::vector<std::string> left_out, unknown;
    std::ranges::set_difference(wanted, rows, std::back_inserter(left_out));
    std::ranges::set_difference(rows, there, std::back_inserter(unknown));
    EXPECT_EQ(left_out, std::vector<std::string>());
    std::erase(unknown, "cuGraphAddNode_v13040"); // newer than most headers
    EXPECT_EQ(unknown, std::vector<std::string>());
}

// valgrind runs its translation of code that has run before. To detect that,
// the hooks call only a function of their own.
TEST(CudaEventsGaps, Valgrind)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "valgrind does not run a program with a sanitizer";
#endif
    if (system("command -v valgrind >/dev/null") != 0) {
        GTEST_SKIP() << "there is no valgrind";
    }
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    for (const auto &[option, test] :
         {std::pair("", "CudaEventsGaps.DISABLED_patches_unseen"),
          std::pair("--smc-check=all ", "CudaEventsInside.nothing_is_tried")}) {
        EXPECT_EQ(system((WITHOUT_UCX_HOOKS
                          " UCX_MEM_MMAP_HOOK_MODE=none TEST_RUNS_ALONE=1 "
                          "valgrind -q --tool=none " +
                          std::string(option) + program +
                          " --gtest_brief=1 --gtest_also_run_disabled_tests"
                          " --gtest_filter=" +
                          test + " 1>&2")
                             .c_str()),
                  0);
    }
}

FAKE_TEST(CudaEventsGaps, DISABLED_patches_unseen)
{
    Fake fake;
    EXPECT_EQ(cuda_events_install(), UCS_OK);
    EXPECT_NE(cuda_events_missing().find("valgrind"), std::string::npos);
    EXPECT_EQ(fake.calls("cuMemFree_v2"), 0L);
}

HOOKED_TEST(CudaEventsGaps, graph_memory)
{
    Reported reported;
    fake.allocate_async(5);
    EXPECT_EQ(reported.times, 0);
    fake.setting("fake_capturing") = 1;
    for (int i = 0; i < 2; ++i) {
        fake.allocate_async(5);
        EXPECT_FALSE(cuda_events_complete());
        EXPECT_EQ(reported.times, 1);
        EXPECT_EQ(reported.why, cuda_events_missing());
        EXPECT_NE(reported.why.find("graphs"), std::string::npos);
    }
}

// A program built for that CUDA may call functions without hooks.
FAKE_TEST(CudaEventsGaps, newer_driver)
{
    static int told = 0;
    Fake fake;
    fake.setting("fake_version") = 13050;
    alarm(60); // ends a deadlock
    cuda_events_on_incomplete(
        [](const char *, void *) {
            if (++told == 2) { // inside the installation: no lock is held
                EXPECT_EQ(cuda_events_install(), UCS_OK);
            }
        },
        nullptr);
    EXPECT_EQ(cuda_events_install(), UCS_OK);
    EXPECT_EQ(told, 2);
    EXPECT_EQ(cuda_events_missing(),
              "cuMemFree, cuMemFree_v2: the driver has a newer variant");
}

// Look-ups of the driver's functions find the interposer's.
void use_interposed()
{
    using Free = int(uint64_t);
    const Fake fake;
    auto *real = function_of<Free *(void *, const char *)>(
        RTLD_DEFAULT, "interposed_dlsym")(fake.library, "cuMemFree_v2");
    auto *interposed = fake.get<Free>("cuMemFree_v2");
    EXPECT_NE(interposed, real);
    install_all();
    for (Free *call : {real, interposed}) {
        expect_release(fake, "cuMemFree_v2", ADDRESS, SIZE,
                       [&] { EXPECT_EQ(call(ADDRESS), 0); });
    }
}

TEST(CudaEventsGaps, Interposer)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer wants to be loaded before the interposer";
#endif
    const std::string preload = "LD_PRELOAD=" + variable("top_builddir") +
                                "/test/gtest/ucm/fake/interposer.so";
    run_alone(use_interposed, {WITHOUT_UCX_HOOKS, preload});
}

// A uprobe replaces the jump's first byte by a breakpoint. The next event
// notices that.
HOOKED_TEST(CudaEventsGaps, a_hook_is_overwritten)
{
    Reported reported;
    fake.allocate();
    EXPECT_EQ(reported.times, 0);
    const breakpoint uprobe(fake.get<void>("cuMemFree_v2"));
    for (int i = 0; i < 2; ++i) {
        fake.allocate();
        EXPECT_EQ(reported.times, 1);
        EXPECT_FALSE(cuda_events_complete());
        EXPECT_EQ(reported.why, "cuMemFree_v2: something else "
                                "replaced the hook");
    }
}

#ifndef CAN_PATCH
FAKE_TEST(CudaEventsGaps, nothing_can_be_patched)
{
    const Fake fake;
    EXPECT_EQ(cuda_events_install(), UCS_OK);
    const Reported reported;
    EXPECT_EQ(reported.times, 1);
    EXPECT_NE(reported.why.find("cuMemFree_v2, "), std::string::npos);
    EXPECT_TRUE(reported.why.ends_with(
        ": functions cannot be patched on this processor"));
    EXPECT_FALSE(cuda_events_complete());
    EXPECT_EQ(fake.call("cuMemFree_v2", fake.allocate()), 0);
}
#endif

// Expects that a call reaches the driver, and that it releases an address, or
// the hooks are incomplete.
template <class... Args>
void expect_call(const Fake &fake, Events &events, uint64_t releases,
                 const char *name, Args... args)
{
    const long before = fake.calls(name);
    events.take();
    fake.call(name, args...);
    EXPECT_EQ(fake.calls(name), before + 1);
    EXPECT_TRUE((releases == 0) || (events.frees_of(releases) > 0) ||
                !cuda_events_complete());
}

void call_all(const Fake &fake, Events &events)
{
    uint64_t address, module;
    size_t size;

    expect_call(fake, events, 0, "cuMemAlloc_v2", &address, NEW_SIZE);
    expect_call(fake, events, address, "cuMemFree_v2", address);
    expect_call(fake, events, 0, "cuMemAllocFromPoolAsync", &address, NEW_SIZE,
                POOL, 0);
    expect_call(fake, events, address, "cuMemFreeAsync", address, 0);
    expect_call(fake, events, address, "cuMemPoolTrimTo", POOL, 0);
    expect_call(fake, events, 0, "cuLibraryGetModule", &module, LIBRARY);
    expect_call(fake, events, 0, "cuModuleGetGlobal_v2", &address, &size,
                module, "a");
    expect_call(fake, events, address, "cuLibraryUnload", LIBRARY);
    expect_call(fake, events, 0, "cuMemAlloc_v2", &address, NEW_SIZE);
    fake.setting("fake_forgotten") = 1;
    fake.setting("fake_active") = fake.setting("fake_last") = 1;
    expect_call(fake, events, address, "cuDevicePrimaryCtxRelease", 0);
}

// Runs in a child for each allocation that can fail in it.
template <class Run>
void with_each_refused(Run &&run)
{
    EXPECT_GT(alloc_faults::each_in_a_child(run), 3);
    EXPECT_FALSE(testing::Test::HasFailure());
}

FAKE_TEST(CudaEventsMemory, calls)
{
    Fake fake;
    fake.setting("fake_active") = 0;
    install_all();
    Events events;
    with_each_refused([&](alloc_faults::plan &what) {
        const alloc_faults::armed now(what);
        call_all(fake, events);
    });
}

FAKE_TEST(CudaEventsMemory, installation)
{
    Fake fake;
    fake.setting("fake_active") = 0;
    Events events;
    with_each_refused([&](alloc_faults::plan &what) {
        ucs_status_t status;
        {
            const alloc_faults::armed now(what);
            status = cuda_events_install();
        }
        EXPECT_TRUE((status == UCS_OK) || !cuda_events_complete());
        EXPECT_EQ(cuda_events_missing().empty(), cuda_events_complete());
        call_all(fake, events);
        // A repeated installation works, but the hooks stay incomplete.
        EXPECT_EQ(cuda_events_install(), UCS_OK);
        EXPECT_TRUE((status == UCS_OK) || !cuda_events_complete());
        call_all(fake, events);
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
    EXPECT_TRUE(cuda_events_complete());
}

// The plug-in's other threads leave the driver before a context is destroyed. A
// release destroys none that they have retained.
HOOKED_TEST(CudaEventsMemory, threads_leave_before_a_context_ends)
{
    static const Fake *used;
    static std::string name;
    static int told;
    static long before;
    used = &fake;
    cuda_events_subscribe({.context_end = [](void *) {
        ++told;
        EXPECT_EQ(used->calls(name.c_str()), before);
    }});
    for (const char *each : {"cuDevicePrimaryCtxReset", "cuCtxDestroy_v2"}) {
        name   = each;
        told   = 0;
        before = fake.calls(each);
        fake.call(each, 0);
        EXPECT_EQ(told, 1) << each;
        EXPECT_EQ(fake.calls(each), before + 1);
    }
    told = 0;
    fake.call("cuMemFree_v2", fake.allocate());
    fake.call("cuDevicePrimaryCtxRelease", 0);
    fake.call("cuGreenCtxDestroy", 0);
    EXPECT_EQ(told, 0);
}

} // namespace
} // namespace ucx_ib_dmabuf
