// SPDX-License-Identifier: BSD-3-Clause
//
// A hook runs inside the program's call, with the caller's locks held:
// operations that it must avoid there.
#include "fake.h"
#include <csetjmp>
#include <gtest/gtest.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

// The hooks' queries must not invalidate a stream's capture, and the program's
// own call keeps its mode.
FAKE_TEST(CudaEventsInside, stream_captures)
{
    Fake fake;
    int &invalidated = fake.setting("fake_invalidated");

    fake.setting("fake_global_capture") = 1;
    install_all();
    CHECK_EQ(invalidated, 0);
    // Each of these invalidates it once itself.
    expect_release_by(fake, "cuMemFreeAsync", ADDRESS, SIZE, ADDRESS, 5);
    CHECK_EQ(invalidated, 1);
    fake.call("cuCtxDestroy_v2", 0);
    CHECK_EQ(invalidated, 2);
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    CHECK_EQ(invalidated, 3);
    fake.allocate();
    CHECK_EQ(invalidated, 4);
    fake.setting("fake_forgotten") = 1;
    fake.call("cuCtxDestroy_v2", 0);
    CHECK_EQ(invalidated, 5);
    fake.call("cuGreenCtxDestroy", 0);
    CHECK_EQ(invalidated, 6);
}

// The check of the hooks calls no function that has an effect or fails.
HOOKED_TEST(CudaEventsInside, nothing_is_tried)
{
    for (const char *name :
         {"cuMemFree_v2", "cuMemFreeHost", "cuMemAddressFree",
          "cuIpcCloseMemHandle", "cuDevicePrimaryCtxRelease",
          "cuDevicePrimaryCtxReset", "cuCtxDestroy_v2"}) {
        CHECK_EQ(fake.calls(name), 0L);
    }
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
            CHECK_EQ(events.frees_of(ADDRESS), size_t(1));
            at_depth(depth, allocate);
            CHECK_EQ(events.take().size(), size_t(1));
        }
    };
    const auto expect_harmless = [&](const std::function<void()> &call) {
        inside = jump_out;
        if (sigsetjmp(outside, 0) == 0) {
            at_depth(4, call);
            CHECK(false);
        }
        expect_seen();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        // A sanitizer's function begins with a call. The copy of the call has
        // no unwind tables, so no exception can pass it.
        inside = throw_out;
        try {
            at_depth(4, call);
            CHECK(false);
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
        CHECK_EQ(allocate(name), answer);
        CHECK_EQ(fake.calls(name), before + more_calls);
    };
    const char *names[] = {"cuMemAlloc_v2",        "cuMemAllocAsync",
                           "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync",
                           "cuMemCreate",          "cuArrayCreate_v2",
                           "cuArray3DCreate_v2",   "cuMipmappedArrayCreate"};
    for (const char *name : names) {
        expect(name, FULL, 1); // no handler yet
    }
    cuda_events_on_out_of_memory(
        [](void *arg) {
            CHECK(arg == &given);
            CHECK(++asked == 1); // not for allocations in here
            used->allocate();
            used->setting("fake_result") = (given > 1) ? 0 : FULL;
            return given != 0;
        },
        &given);
    for (const char *name : names) {
        const int also = (name == names[0]); // the handler's own call
        given          = 0;
        expect(name, FULL, 1 + also);
        given = 1;
        expect(name, FULL, 2 + also);
        given = 2;
        Events events;
        expect(name, 0, 2 + also);
        CHECK_EQ(asked, 1);
        const size_t announced = std::string(name).starts_with("cuMemAlloc");
        CHECK_EQ(events.take().size(), announced);
        CHECK_EQ(allocate(name), 0);
        CHECK_EQ(asked, 1); // there is memory
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
