// SPDX-License-Identifier: BSD-3-Clause
//
// Releases of much memory at once: contexts, devices and pools, on the driver
// library that does nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include "fake.h"

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

FAKE_TEST(CudaEventsOwners, everything)
{
    Fake fake;
    install_all();
    for (const char *name : {"cuCtxDestroy_v2", "cuCtxDestroy", "cuCtxDetach",
                             "cuDevicePrimaryCtxReset"}) {
        uint64_t address;
        fake.setting("fake_forgotten") = 0;
        fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
        expect_release(fake, name, 0, 0, [&] { fake.get<Call1>(name)(0); });

        // Memory that the driver has forgotten is then announced by its range.
        fake.setting("fake_forgotten") = 1;
        const long before              = fake.calls(name);
        Events events([&] { return fake.calls(name); });
        fake.get<Call1>(name)(0);
        const auto seen = events.take();
        CHECK_EQ(seen.size(), size_t(2));
        CHECK(seen[0].size == 0 && seen[0].context == before);
        CHECK(seen[1].free && seen[1].context == before + 1);
        CHECK_EQ(seen[1].address, NEW);
        CHECK_EQ(seen[1].size, size_t(0x5000));
    }
}

FAKE_TEST(CudaEventsOwners, primary_release)
{
    Fake fake;
    install_all();
    auto *retain  = fake.get<int(void *, int)>("cuDevicePrimaryCtxRetain");
    auto *release = fake.get<Device>("cuDevicePrimaryCtxRelease");
    uint64_t address;
    Events events;
    release(0);
    CHECK(events.take().empty()); // the context is still in use
    fake.setting("fake_active") = 0;
    release(0);
    CHECK(events.saw_everything());

    // The hooks saw the context's creation: all ranges are known, and no later
    // use of it queries the driver.
    retain(&address, 0);
    const long asked = fake.calls("cuDevicePrimaryCtxGetState");
    retain(&address, 0);
    CHECK_EQ(fake.calls("cuDevicePrimaryCtxGetState"), asked);
    fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
    events.take();
    release(0);
    CHECK(events.take().empty());
    retain(&address, 0);
    fake.setting("fake_forgotten") = 1;
    release(0);
    const auto seen = events.take();
    CHECK_EQ(seen.size(), size_t(1));
    CHECK_EQ(seen[0].address, NEW);
    CHECK_EQ(seen[0].size, size_t(0x5000));
    release(0); // not retained since
    CHECK(events.saw_everything());
}

FAKE_TEST(CudaEventsOwners, green_contexts)
{
    Fake fake;
    install_all();
    auto *destroy = fake.get<Call1>("cuGreenCtxDestroy");
    Events events;
    destroy(0);
    CHECK(events.take().empty()); // the primary context is still in use
    fake.setting("fake_last") = 1;
    destroy(0);
    CHECK(events.saw_everything());
    destroy(0); // e.g. of another device
    CHECK(events.take().empty());
}

// After the last release a driver may report an error of the context instead of
// the address. The memory's state is then unknown: its registrations end, and
// it is not taken for host memory.
FAKE_TEST(CudaEventsOwners, primary_release_with_unclear_answers)
{
    Fake fake;
    install_all();
    auto *retain  = fake.get<int(void *, int)>("cuDevicePrimaryCtxRetain");
    auto *release = fake.get<Device>("cuDevicePrimaryCtxRelease");
    uint64_t address;
    size_t frees;
    fake.setting("fake_active") = 0;
    for (const Query query :
         {Query([](uint64_t) { return 709; }),  // CONTEXT_IS_DESTROYED
          Query([](uint64_t) { return 201; }),  // INVALID_CONTEXT
          Query([](uint64_t) { return 4; })}) { // DEINITIALIZED
        set_query(fake, nullptr);
        retain(&address, 0);
        fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
        Events events;
        set_query(fake, query);
        release(0);
        CHECK(ends_as_memory(events, NEW + 0x4fff, &frees));
        CHECK_EQ(frees, size_t(1));
        set_query(fake, nullptr);
        expect_release(fake, "cuMemFree_v2", NEW, SIZE, // its size is queried
                       [&] { fake.get<Call1>("cuMemFree_v2")(NEW); });
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
        reuse.fake->get<Alloc>("cuMemAlloc_v2")(&reuse.fresh, 0x4000);
    }
    return ((reuse.queries > 2) && (asked == reuse.fresh)) ? 0
                                                           : reuse.gone_says;
}

void use_anew(uint64_t offset, int gone_says = 1)
{
    Fake fake;
    install_all();
    reuse = {&fake, offset, gone_says, 0, 0, 0};
    uint64_t address;
    fake.place(NEW, 0x100000);
    for (int i = 0; i < 3; ++i) {
        fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x10000);
    }
    set_query(fake, reuse_while_asked);
    Events events;
    fake.get<Call1>("cuCtxDestroy_v2")(0);
    CHECK_EQ(reuse.fresh, reuse.gone + offset);
    size_t frees;
    CHECK(ends_as_memory(events, reuse.fresh, &frees));
    CHECK_EQ(frees, size_t(1));
    set_query(fake, nullptr);
    expect_release(fake, "cuMemFree_v2", reuse.fresh, 0x4000, // still known
                   [&] { fake.get<Call1>("cuMemFree_v2")(reuse.fresh); });
}

FAKE_TEST(CudaEventsOwners, addresses_used_anew_meanwhile)
{
    use_anew(0);
}

FAKE_TEST(CudaEventsOwners, addresses_used_anew_further_up)
{
    use_anew(0x8000);
}

// The size of the new memory stays known, too.
FAKE_TEST(CudaEventsOwners, addresses_used_anew_with_unclear_answers)
{
    use_anew(0, 201); // INVALID_CONTEXT
}

// Mappings are not listed, so the driver is queried once more.
FAKE_TEST(CudaEventsOwners, addresses_mapped_anew_meanwhile)
{
    Fake fake;
    install_all();
    uint64_t address;
    fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x10000);
    set_query(fake, [](uint64_t) { return (reuse.queries++ == 0) ? 1 : 0; });
    Events events;
    fake.get<Call1>("cuCtxDestroy_v2")(0);
    size_t frees;
    CHECK(ends_as_memory(events, address, &frees));
    CHECK_EQ(frees, size_t(1));
}

FAKE_TEST(CudaEventsOwners, pools)
{
    constexpr uint64_t pool = 0xabc0;
    Fake fake;
    install_all();
    uint64_t address;
    for (const char *name : {"cuMemPoolTrimTo", "cuMemPoolDestroy"}) {
        fake.get<Alloc4>("cuMemAllocFromPoolAsync")(&address, 0x5000, pool, 0);
        Events events;
        fake.get<Call2>(name)(pool, 0);
        CHECK(events.take().empty()); // in use: the pool keeps it
        fake.get<Call2>("cuMemFreeAsync")(NEW, 0);
        CHECK_EQ(events.frees_of(NEW + 0x4fff), size_t(1));
        fake.get<Call2>(name)(pool + 1, 0);
        CHECK(events.take().empty());
        expect_release(fake, name, NEW, 0x5000,
                       [&] { fake.get<Call2>(name)(pool, 0); });
    }
}

// Memory that a pool has reused, or that overlaps such memory, is not
// announced. Memory of an unknown pool is announced with any pool.
FAKE_TEST(CudaEventsOwners, pools_that_give_memory_out_again)
{
    constexpr uint64_t pool = 0xabc0;
    Fake fake;
    install_all();
    auto *allocate = fake.get<Alloc4>("cuMemAllocFromPoolAsync");
    auto *release  = fake.get<Call2>("cuMemFreeAsync");
    auto *trim     = fake.get<Call2>("cuMemPoolTrimTo");
    uint64_t address;
    const auto give_out_again = [&](uint64_t offset) {
        fake.place(NEW, 0);
        allocate(&address, 0x5000, pool, 0);
        release(address, 0);
        fake.place(NEW + offset, offset);
        allocate(&address, 0x100, pool, 0);
    };
    for (const uint64_t offset : {0, 0x1000, 0x4f00}) {
        give_out_again(offset);
        Events events;
        trim(pool, 0);
        CHECK(events.take().empty());
        release(address, 0);
        trim(pool, 0);
    }
    give_out_again(0x5000); // beside it
    expect_release(fake, "cuMemPoolTrimTo", NEW, 0x5000,
                   [&] { trim(pool, 0); });
    fake.place(NEW, 0);
    fake.get<Alloc3>("cuMemAllocAsync")(&address, 0x5000, 0);
    release(address, 0);
    expect_release(fake, "cuMemPoolTrimTo", NEW, 0x5000,
                   [&] { trim(pool, 0); });
}

// If a program never reuses an address, the hooks' memory use stays bounded.
// Live memory stays known.
FAKE_TEST(CudaEventsOwners, memory_that_its_pool_keeps_is_forgotten)
{
    constexpr size_t count = 1 << 20, of_each = 64;
    Fake fake;
    install_all();
    auto *allocate = fake.get<Alloc4>("cuMemAllocFromPoolAsync");
    auto *release  = fake.get<Call2>("cuMemFreeAsync");
    uint64_t kept, address;
    fake.place(NEW, 0x10000);
    fake.get<Alloc>("cuMemAlloc_v2")(&kept, 0x5000);
    const size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < count; ++i) {
        allocate(&address, 0x5000, 0xabc0, 0);
        release(address, 0);
    }
    CHECK(mallinfo2().uordblks < before + count / 2 * of_each);
    expect_release(fake, "cuMemFree_v2", kept, 0x5000,
                   [&] { fake.get<Call1>("cuMemFree_v2")(kept); });
}

// A context is destroyed even if the driver returns an earlier error.
FAKE_TEST(CudaEventsOwners, context_destroyed_with_an_error)
{
    Fake fake;
    install_all();
    uint64_t address;
    fake.get<Alloc>("cuMemAlloc_v2")(&address, 0x5000);
    Events events;
    fake.setting("fake_forgotten") = 1;
    fake.setting("fake_result")    = 700; // ILLEGAL_ADDRESS
    fake.get<Call1>("cuCtxDestroy_v2")(0);
    CHECK_EQ(events.frees_of(address + 0x4fff), size_t(1));
}

// The driver counts how often a handle is open: only the last close releases
// the memory.
FAKE_TEST(CudaEventsOwners, ipc_memory_opened_twice)
{
    Fake fake;
    install_all();
    auto *close = fake.get<Call1>("cuIpcCloseMemHandle");
    size_t frees;
    bool managed;
    Events events;
    for (const char *answer : {"there", "unclear", "gone"}) {
        set_query(fake, (*answer == 't')   ? Query([](uint64_t) { return 0; })
                        : (*answer == 'u') ? Query([](uint64_t) { return 201; })
                                           : Query([](uint64_t) { return 1; }));
        close(ADDRESS);
        CHECK_EQ(ends_as_memory(events, ADDRESS + SIZE - 1, &frees, &managed),
                 *answer != 'g');
        CHECK_EQ(frees, size_t(1));
        CHECK_EQ(managed, *answer != 'g'); // as it is never exported
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
