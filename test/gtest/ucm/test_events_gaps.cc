// SPDX-License-Identifier: BSD-3-Clause
//
// Missing hooks: which cases count as such, and which subscribers are notified;
// on the driver library that does nothing.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <common/first_byte.h>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <regex>
#include <set>
#include <sys/mman.h>
#include <ucm/calls.h>
#include <vector>

#include "fake.h"

namespace {

std::atomic<bool> pages_stay_writable{false};

} // namespace

// Replaces libc's mprotect() for the code under test.
extern "C" int mprotect(void *address, size_t length, int protection) noexcept;
extern "C" int mprotect(void *address, size_t length, int protection) noexcept
{
    if (pages_stay_writable && (protection == (PROT_READ | PROT_EXEC))) {
        errno = EACCES;
        return -1;
    }
    return pkey_mprotect(address, length, protection, -1);
}

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

using GetModule = int(uint64_t *, uint64_t);
using Retain    = int(void *, int);

// The notifications of the subscriber.
struct Told {
    int times = 0;
    std::string why;
};

void tell(const char *why, void *arg)
{
    auto *told = static_cast<Told *>(arg);
    ++told->times;
    told->why = why;
    CHECK_EQ(cuda_events_missing(), told->why); // no lock is held
}

FAKE_TEST(CudaEventsGaps, old_entry_point)
{
    Fake fake;
    install_all();
    const long before = fake.calls("cuMemFree_v2");
    Events events([&] { return fake.calls("cuMemFree_v2"); });
    fake.get<Call1>("cuMemFree")(ADDRESS);
    const auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(2)); // this function's, and its target's
    for (const SeenEvent &event : seen) {
        CHECK(event.free && (event.address == ADDRESS) &&
              (event.context == before) && (event.size == SIZE));
    }
}

// Every variant of a hooked function that a program of any CUDA may request.
TEST(CudaEventsGaps, EveryVariantOfCudasHeader)
{
    std::set<std::string> rows, names, wanted, there;
    for (const auto &row : ucm::driver_functions()) {
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
    GTEST_SKIP() << "not with a sanitizer";
#endif
    if (system("command -v valgrind >/dev/null") != 0) {
        GTEST_SKIP() << "there is no valgrind";
    }
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    for (const auto &[option, scenario] :
         {std::pair("", "patches_unseen"),
          std::pair("--smc-check=all ", "nothing_is_tried")}) {
        EXPECT_EQ(system(("UCX_MODULES=^cuda UCX_MEM_MMAP_HOOK_MODE=none "
                          "valgrind -q --tool=none " +
                          std::string(option) + program +
                          " --scenario=" + scenario + " 1>&2")
                             .c_str()),
                  0);
    }
}

SCENARIO(patches_unseen)
{
    Fake fake;
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK(cuda_events_missing().find("valgrind") != std::string::npos);
    CHECK_EQ(fake.calls("cuMemFree_v2"), 0L);
}

// Each hook still calls its own function.
FAKE_TEST(CudaEventsGaps, pages_cannot_be_protected_again)
{
    Fake fake;
    pages_stay_writable = true;
    install_all();
    pages_stay_writable = false;
    for (const char *name :
         {"cuMemFree_v2", "cuMemFreeHost", "cuIpcCloseMemHandle"}) {
        expect_release(fake, name, ADDRESS, SIZE,
                       [&] { fake.get<Call1>(name)(ADDRESS); });
    }
    for (const char *name : {"cuMemUnmap", "cuMemAddressFree"}) {
        expect_release(fake, name, ADDRESS, SIZE,
                       [&] { fake.get<Call2>(name)(ADDRESS, SIZE); });
    }
}

FAKE_TEST(CudaEventsGaps, variables_by_a_librarys_module)
{
    constexpr uint64_t library = 0x90;
    Fake fake;
    install_all();
    auto *get    = fake.get<GetGlobal>("cuModuleGetGlobal_v2");
    auto *unload = fake.get<Call1>("cuLibraryUnload");
    uint64_t module, address;
    size_t size;
    CHECK_EQ(fake.get<GetModule>("cuLibraryGetModule")(&module, library), 0);
    CHECK_EQ(get(&address, &size, module, "a"), 0);
    Events events;
    unload(library + 1);
    CHECK(events.take().empty());
    expect_release(fake, "cuLibraryUnload", address, size,
                   [&] { unload(library); });

    // The driver reuses the handle, for a separate module.
    CHECK_EQ(get(&address, &size, module, "a"), 0);
    events.take();
    unload(library);
    CHECK(events.take().empty());
    expect_release(fake, "cuModuleUnload", address, size,
                   [&] { fake.get<Call1>("cuModuleUnload")(module); });
}

FAKE_TEST(CudaEventsGaps, graph_memory)
{
    Fake fake;
    install_all();
    Told told;
    cuda_events_on_incomplete(tell, &told);
    CHECK_EQ(told.times, 0);
    uint64_t address;
    for (int i = 0; i < 2; ++i) {
        fake.setting("fake_capturing") = 1;
        fake.get<Alloc3>("cuMemAllocAsync")(&address, 0x5000, 5);
        CHECK(!cuda_events_complete());
        CHECK_EQ(told.times, 1);
        CHECK_EQ(told.why, cuda_events_missing());
        CHECK(told.why.find("graphs") != std::string::npos);
    }
}

// A program built for that CUDA may call functions without hooks.
FAKE_TEST(CudaEventsGaps, newer_driver)
{
    Fake fake;
    fake.setting("fake_version") = 13050;
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK_EQ(
        cuda_events_missing(),
        std::string("cuMemFree, cuMemFree_v2: the driver has a newer variant"));
}

// A runtime's functions matter only if a driver function is not hooked.
void load_runtime(const Fake &fake)
{
    open_fake("fake/libcudart-odd.so");
    uint64_t context;
    fake.get<Retain>("cuDevicePrimaryCtxRetain")(&context, 0);
    cuda_events_refresh();
}

FAKE_TEST(CudaEventsGaps, late_runtime)
{
    Fake fake;
    install_all();
    load_runtime(fake);
    install_all();
}

FAKE_TEST(CudaEventsGaps, late_runtime_of_incomplete_driver)
{
    Fake fake("fake_odd");
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    CHECK(cuda_events_missing().find("cudaFreeAsync") == std::string::npos);
    load_runtime(fake);
    CHECK(cuda_events_missing().find("cudaFreeAsync") != std::string::npos);
}

// Look-ups of the driver's functions find the interposer's.
SCENARIO(interposed)
{
    const Fake fake;
    auto *real = function_of<void *(void *, const char *)>(
        RTLD_DEFAULT, "interposed_dlsym")(fake.library, "cuMemFree_v2");
    auto *interposed = fake.get<Call1>("cuMemFree_v2");
    CHECK(reinterpret_cast<void *>(interposed) != real);
    install_all();
    for (Call1 *call : {reinterpret_cast<Call1 *>(real), interposed}) {
        expect_release(fake, "cuMemFree_v2", ADDRESS, SIZE,
                       [&] { CHECK_EQ(call(ADDRESS), 0); });
    }
}

TEST(CudaEventsGaps, Interposer)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "not with a sanitizer";
#endif
    const std::string preload = "LD_PRELOAD=" + variable("top_builddir") +
                                "/test/gtest/ucm/fake/interposer.so";
    EXPECT_TRUE(run_on_fake("interposed", preload.c_str()));
}

// A uprobe replaces the jump's first byte by a breakpoint.
FAKE_TEST(CudaEventsGaps, a_hook_is_overwritten)
{
    Fake fake;
    install_all();
    Told told;
    cuda_events_on_incomplete(tell, &told);
    uint64_t address;
    auto *allocate = fake.get<Alloc>("cuMemAlloc_v2");
    allocate(&address, 0x5000);
    CHECK(!cuda_events_need_refresh());
    {
        const first_byte breakpoint(fake.get<void>("cuMemFree_v2"), 0xcc);
        allocate(&address, 0x5000);
        CHECK(cuda_events_need_refresh());
        cuda_events_refresh();
    }
    CHECK_EQ(told.times, 1);
    CHECK_EQ(told.why, std::string("cuMemFree_v2: something else replaced the "
                                   "hook"));
    cuda_events_refresh();
    CHECK_EQ(told.times, 1);
}

FAKE_TEST(CudaEventsGaps, late_subscriber)
{
    Fake fake("fake_odd");
    Told told;
    CHECK_EQ(int(cuda_events_install()), int(UCS_OK));
    cuda_events_on_incomplete(tell, &told);
    CHECK_EQ(told.times, 1);
    CHECK(told.why.find("cuMemUnmap: ") != std::string::npos);
}

} // namespace
} // namespace ucx_ib_dmabuf
