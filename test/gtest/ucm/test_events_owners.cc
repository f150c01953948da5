// SPDX-License-Identifier: BSD-3-Clause
//
// Releases of much memory at once: contexts, devices and pools, on the driver
// library that does nothing.
#include "fake.h"
#include <gtest/gtest.h>
#include <malloc.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

HOOKED_TEST(CudaEventsOwners, everything)
{
    for (const char *name : {"cuCtxDestroy_v2", "cuCtxDestroy", "cuCtxDetach",
                             "cuDevicePrimaryCtxReset"}) {
        fake.allocate();
        expect_release_by(fake, name, 0, 0, 0);

        // Memory that the driver has forgotten is then announced by its range,
        // also if the driver returns an earlier error (ILLEGAL_ADDRESS).
        fake.setting("fake_forgotten") = 1;
        for (const int result : {0, 700}) {
            const long before           = fake.calls(name);
            fake.setting("fake_result") = 0;
            fake.allocate();
            fake.setting("fake_result") = result;
            Events events([&] { return fake.calls(name); });
            fake.call(name, 0);
            const auto seen = events.take();
            CHECK_EQ(seen.size(), size_t(3));
            CHECK(seen[0].size == 0 && seen[0].context == before);
            CHECK(seen[1].free && seen[1].context == before + 1);
            CHECK(!seen[2].free && seen[2].type == any_type());
            CHECK_EQ(seen[1].address, NEW);
            CHECK_EQ(seen[1].size, NEW_SIZE);
        }
        fake.setting("fake_forgotten") = 0;
        fake.setting("fake_result")    = 0;
    }
}

// A context that was created after the hooks: all its ranges are known.
FAKE_TEST(CudaEventsOwners, primary_release)
{
    Fake fake;
    fake.setting("fake_active") = 0;
    install_all();
    fake.allocate();
    Events events;
    fake.setting("fake_active") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    CHECK(events.take().empty()); // the context is still in use
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    CHECK(events.take().empty()); // this memory is another context's
    fake.setting("fake_active")    = 1;
    fake.setting("fake_forgotten") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    const auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(2));
    CHECK(seen[0].free && !seen[1].free);
    CHECK_EQ(seen[0].address, NEW);
    CHECK_EQ(seen[0].size, NEW_SIZE);
}

HOOKED_TEST(CudaEventsOwners, release_of_an_older_primary_context)
{
    Events events;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    CHECK(events.take().empty()); // the context is still in use
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    CHECK(events.saw_everything());
    fake.setting("fake_active") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0); // of a newer context
    CHECK(!events.saw_everything());
}

HOOKED_TEST(CudaEventsOwners, green_contexts)
{
    Events events;
    fake.call("cuGreenCtxDestroy", 0);
    CHECK(events.take().empty()); // the primary context is still in use
    fake.setting("fake_last") = 1;
    fake.call("cuGreenCtxDestroy", 0);
    CHECK(events.saw_everything());
    fake.call("cuGreenCtxDestroy", 0); // e.g. of another device
    CHECK(events.take().empty());
}

// After the last release a driver may report an error of the context instead of
// the address. The memory's state is then unknown: its registrations end, and
// it is not taken for host memory.
FAKE_TEST(CudaEventsOwners, primary_release_with_unclear_answers)
{
    Fake fake;
    size_t frees;
    fake.setting("fake_active") = 0;
    install_all();
    for (const Query query :
         {Query([](uint64_t) { return 709; }),  // CONTEXT_IS_DESTROYED
          Query([](uint64_t) { return 201; }),  // INVALID_CONTEXT
          Query([](uint64_t) { return 4; })}) { // DEINITIALIZED
        fake.allocate();
        Events events;
        fake.setting("fake_active") = fake.setting("fake_last") = 1;
        fake.set_query(query);
        fake.call("cuDevicePrimaryCtxRelease", 0);
        CHECK(ends_as_memory(events, NEW + NEW_SIZE - 1, &frees));
        CHECK_EQ(frees, size_t(1));
        fake.set_query(nullptr); // the size is queried
        expect_release_by(fake, "cuMemFree_v2", NEW, SIZE, NEW);
    }
}

// Another thread may get new memory at addresses just released. It is not taken
// for host memory, whichever event comes first.
struct {
    const Fake *fake;
    uint64_t offset; // of the new memory
    int gone_says;   // the answer about released memory
    uint64_t gone, fresh;
    int queries;
} reuse;

int reuse_while_asked(uint64_t asked)
{
    if (++reuse.queries == 1) {
        reuse.gone = asked;
    } else if (reuse.queries == 2) {
        reuse.fake->place(reuse.gone + reuse.offset, 0x8000);
        reuse.fresh = reuse.fake->allocate();
    }
    return ((reuse.queries > 2) && (asked == reuse.fresh)) ? 0
                                                           : reuse.gone_says;
}

void use_anew(const Fake &fake, uint64_t offset, int gone_says = 1)
{
    reuse = {&fake, offset, gone_says, 0, 0, 0};
    fake.place(NEW + 0x100, 0x100); // a pool still has this memory
    fake.call("cuMemFreeAsync", fake.allocate_from(POOL, 0x100), 0);
    fake.place(NEW, 0x100000);
    for (int i = 0; i < 3; ++i) {
        uint64_t address;
        fake.call("cuMemAlloc_v2", &address, 0x10000);
    }
    fake.set_query(reuse_while_asked);
    Events events;
    fake.call("cuCtxDestroy_v2", 0);
    CHECK_EQ(reuse.fresh, reuse.gone + offset);
    size_t frees;
    CHECK(ends_as_memory(events, reuse.fresh, &frees));
    CHECK_EQ(frees, size_t(1));
    fake.set_query(nullptr); // the size is still known
    expect_release_by(fake, "cuMemFree_v2", reuse.fresh, NEW_SIZE, reuse.fresh);
}

HOOKED_TEST(CudaEventsOwners, addresses_used_anew_meanwhile)
{
    use_anew(fake, 0);
}

HOOKED_TEST(CudaEventsOwners, addresses_used_anew_further_up)
{
    use_anew(fake, 0x8000);
}

// The size of the new memory stays known, too.
HOOKED_TEST(CudaEventsOwners, addresses_used_anew_with_unclear_answers)
{
    use_anew(fake, 0, 201); // INVALID_CONTEXT
}

// Mappings are not listed, so the driver is queried once more.
HOOKED_TEST(CudaEventsOwners, addresses_mapped_anew_meanwhile)
{
    const uint64_t address = fake.allocate();
    fake.set_query([](uint64_t) { return (reuse.queries++ == 0) ? 1 : 0; });
    Events events;
    fake.call("cuCtxDestroy_v2", 0);
    size_t frees;
    CHECK(ends_as_memory(events, address, &frees));
    CHECK_EQ(frees, size_t(1));
}

// Memory that a pool has reused, or that overlaps such memory, is not
// announced. Memory of an unknown pool is announced with any pool.
HOOKED_TEST(CudaEventsOwners, pools_that_give_memory_out_again)
{
    const auto give_out_again = [&](uint64_t offset) {
        fake.place(NEW, 0);
        fake.call("cuMemFreeAsync", fake.allocate_from(POOL), 0);
        fake.place(NEW + offset, offset);
        return fake.allocate_from(POOL, 0x100);
    };
    for (const uint64_t offset : {0, 0x1000, 0x4f00}) {
        const uint64_t address = give_out_again(offset);
        Events events;
        fake.call("cuMemPoolTrimTo", POOL, 0);
        CHECK(events.take().empty());
        fake.call("cuMemFreeAsync", address, 0);
        fake.call("cuMemPoolTrimTo", POOL, 0);
    }
    give_out_again(NEW_SIZE); // beside it
    expect_release_by(fake, "cuMemPoolTrimTo", NEW, NEW_SIZE, POOL, 0);
    fake.place(NEW, 0);
    fake.call("cuMemFreeAsync", fake.allocate_async(), 0);
    expect_release_by(fake, "cuMemPoolTrimTo", NEW, NEW_SIZE, POOL, 0);
}

// If a program never reuses an address, the hooks' memory use stays bounded.
// Live memory stays known.
HOOKED_TEST(CudaEventsOwners, memory_that_its_pool_keeps_is_forgotten)
{
    constexpr size_t count = 1 << 20, of_each = 64;
    auto *allocate = fake.get<int(uint64_t *, size_t, uint64_t, uint64_t)>(
        "cuMemAllocFromPoolAsync");
    auto *release = fake.get<int(uint64_t, uint64_t)>("cuMemFreeAsync");
    fake.place(NEW, 0x10000);
    const uint64_t kept = fake.allocate();
    const size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < count; ++i) {
        uint64_t address;
        allocate(&address, NEW_SIZE, POOL, 0);
        release(address, 0);
    }
    CHECK(mallinfo2().uordblks < before + count / 2 * of_each);
    expect_release_by(fake, "cuMemFree_v2", kept, NEW_SIZE, kept);
}

// The driver counts how often a handle is open: only the last close releases
// the memory.
HOOKED_TEST(CudaEventsOwners, ipc_memory_opened_twice)
{
    const struct {
        Query answer;
        bool stays;
    } cases[] = {{[](uint64_t) { return 0; }, true},
                 {[](uint64_t) { return 201; }, true}, // unclear
                 {[](uint64_t) { return 1; }, false}};
    size_t frees;
    bool managed;
    Events events;
    for (const auto &each : cases) {
        fake.set_query(each.answer);
        fake.call("cuIpcCloseMemHandle", ADDRESS);
        CHECK_EQ(ends_as_memory(events, ADDRESS + SIZE - 1, &frees, &managed),
                 each.stays);
        CHECK_EQ(frees, size_t(1));
        CHECK_EQ(managed, each.stays); // as it is never exported
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
