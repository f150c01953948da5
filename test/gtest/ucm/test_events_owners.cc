// SPDX-License-Identifier: BSD-3-Clause
//
// Releases of much memory at once: contexts, devices, pools, modules, libraries
// and graphs, on the driver library that does nothing.
#include "fake.h"
#include <gtest/gtest.h>
#include <malloc.h>
#include <ucm/code_patch.h>

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
            EXPECT_EQ(seen.size(), 3u);
            EXPECT_TRUE(seen[0].size == 0 && seen[0].context == before);
            EXPECT_TRUE(seen[1].free && seen[1].context == before + 1);
            EXPECT_TRUE(!seen[2].free && seen[2].type == any_type());
            EXPECT_EQ(seen[1].address, NEW);
            EXPECT_EQ(seen[1].size, NEW_SIZE);
        }
        fake.setting("fake_forgotten") = 0;
        fake.setting("fake_result")    = 0;
    }
}

// The next context is newer than the hooks: all its ranges are known.
void end_first_context(const Fake &fake)
{
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    fake.setting("fake_last") = 0;
}

HOOKED_TEST(CudaEventsOwners, primary_release)
{
    end_first_context(fake);
    fake.allocate();
    Events events;
    fake.setting("fake_active") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    EXPECT_TRUE(events.take().empty()); // the context is still in use
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    EXPECT_TRUE(events.take().empty()); // this memory is another context's
    fake.setting("fake_active")    = 1;
    fake.setting("fake_forgotten") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    const auto seen = events.take();
    EXPECT_EQ(seen.size(), 2u);
    EXPECT_TRUE(seen[0].free && !seen[1].free);
    EXPECT_EQ(seen[0].address, NEW);
    EXPECT_EQ(seen[0].size, NEW_SIZE);
}

HOOKED_TEST(CudaEventsOwners, release_of_an_older_primary_context)
{
    Events events;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    EXPECT_TRUE(events.take().empty()); // the context is still in use
    fake.setting("fake_last") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0);
    EXPECT_TRUE(events.saw_everything());
    fake.setting("fake_active") = 1;
    fake.call("cuDevicePrimaryCtxRelease", 0); // of a newer context
    EXPECT_FALSE(events.saw_everything());
}

HOOKED_TEST(CudaEventsOwners, green_contexts)
{
    Events events;
    fake.call("cuGreenCtxDestroy", 0);
    EXPECT_TRUE(events.take().empty()); // the primary context is still in use
    fake.setting("fake_last") = 1;
    fake.call("cuGreenCtxDestroy", 0);
    EXPECT_TRUE(events.saw_everything());
    fake.call("cuGreenCtxDestroy", 0); // e.g. of another device
    EXPECT_TRUE(events.take().empty());
}

// After the last release a driver may report an error of the context instead of
// the address. The memory's state is then unknown: its registrations end, and
// it is not taken for host memory.
HOOKED_TEST(CudaEventsOwners, primary_release_with_unclear_answers)
{
    size_t frees;
    end_first_context(fake);
    for (const Query query :
         {Query([](uint64_t) { return 709; }),  // CONTEXT_IS_DESTROYED
          Query([](uint64_t) { return 201; }),  // INVALID_CONTEXT
          Query([](uint64_t) { return 4; })}) { // DEINITIALIZED
        fake.allocate();
        Events events;
        fake.setting("fake_active") = fake.setting("fake_last") = 1;
        fake.set_query(query);
        fake.call("cuDevicePrimaryCtxRelease", 0);
        EXPECT_TRUE(ends_as_memory(events, NEW + NEW_SIZE - 1, &frees));
        EXPECT_EQ(frees, 1u);
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
    EXPECT_EQ(reuse.fresh, reuse.gone + offset);
    size_t frees;
    EXPECT_TRUE(ends_as_memory(events, reuse.fresh, &frees));
    EXPECT_EQ(frees, 1u);
    fake.set_query(nullptr); // the size is still known
    expect_release_by(fake, "cuMemFree_v2", reuse.fresh, NEW_SIZE, reuse.fresh);
}

HOOKED_TEST(CudaEventsOwners, addresses_used_anew_meanwhile)
{
    use_anew(fake, 0);
    use_anew(fake, 0x8000);
    use_anew(fake, 0, 201); // INVALID_CONTEXT
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
        EXPECT_TRUE(events.take().empty());
        fake.call("cuMemFreeAsync", address, 0);
        fake.call("cuMemPoolTrimTo", POOL, 0);
    }
    give_out_again(NEW_SIZE); // beside it
    expect_release_by(fake, "cuMemPoolTrimTo", NEW, NEW_SIZE, POOL, 0);
    fake.place(NEW, 0);
    fake.call("cuMemFreeAsync", fake.allocate_async(), 0);
    expect_release_by(fake, "cuMemPoolTrimTo", NEW, NEW_SIZE, POOL, 0);
}

// A pool keeps memory in use. Its end announces no other pool's memory, and no
// ordinary memory.
HOOKED_TEST(CudaEventsOwners, pools_that_end)
{
    fake.place(NEW, 0x10000);
    for (const char *name : {"cuMemPoolTrimTo", "cuMemPoolDestroy"}) {
        const uint64_t freed = fake.allocate_from(POOL);
        const uint64_t used  = fake.allocate_from(POOL);
        fake.call("cuMemFreeAsync_ptsz", freed, 0);
        fake.call("cuMemFreeAsync", fake.allocate_from(POOL + 1), 0);
        fake.call("cuMemFree_v2", fake.allocate());
        expect_release_by(fake, name, freed, NEW_SIZE, POOL, 0);
        fake.call("cuMemFreeAsync", used, 0);
        expect_release_by(fake, name, used, NEW_SIZE, POOL, 0);
    }
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
    EXPECT_LT(mallinfo2().uordblks, before + count / 2 * of_each);
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
        EXPECT_EQ(ends_as_memory(events, ADDRESS + SIZE - 1, &frees, &managed),
                  each.stays);
        EXPECT_EQ(frees, 1u);
        EXPECT_EQ(managed, each.stays); // as it is never exported
    }
}

void expect_variable_released(const Fake &fake, const char *unload,
                              uint64_t handle)
{
    expect_release_by(fake, unload, VARIABLE, VARIABLE_SIZE, handle);
}

HOOKED_TEST(CudaEventsOwners, modules)
{
    Events events;
    fake.get_global(MODULE);
    EXPECT_EQ(events.take().size(), 1u);
    fake.get_global(MODULE); // nothing new
    EXPECT_TRUE(events.take().empty());
    // Memory of an unknown pool, which still holds it.
    fake.call("cuMemFreeAsync", fake.allocate_async(), 0);
    events.take();
    fake.call("cuModuleUnload", MODULE + 1);
    EXPECT_TRUE(events.take().empty());
    // A range that was released unseen seems to enclose the variable.
    fake.place(VARIABLE - 0x100, VARIABLE - 0x100 - NEW);
    fake.allocate();
    expect_variable_released(fake, "cuModuleUnload", MODULE);
}

HOOKED_TEST(CudaEventsOwners, variables_by_a_librarys_module)
{
    const uint64_t module = fake.get_module(LIBRARY);
    fake.get_global(module);
    Events events;
    fake.call("cuLibraryUnload", LIBRARY + 1);
    EXPECT_TRUE(events.take().empty());
    expect_variable_released(fake, "cuLibraryUnload", LIBRARY);

    // The driver reuses the handle, for a separate module.
    fake.get_global(module);
    events.take();
    fake.call("cuLibraryUnload", LIBRARY);
    EXPECT_TRUE(events.take().empty());
    expect_variable_released(fake, "cuModuleUnload", module);
}

using GetGlobal = int(uint64_t *, size_t *, uint64_t, const char *);
std::atomic<void *> driver_get_global;

// Stands in for the hook of UCX's CUDA module, which cannot patch the fake.
int ucx_get_global(uint64_t *address, size_t *size, uint64_t module,
                   const char *name)
{
    const ucm_functions &ucm = *all_ucm().front();
    const int result = reinterpret_cast<GetGlobal *>(driver_get_global.load())(
        address, size, module, name);
    ucm_event_t event{};
    event.mem_type = {reinterpret_cast<void *>(*address), *size,
                      ucm.unknown_type, 0, 0};
    ucm.event_dispatch(UCM_EVENT_MEM_TYPE_ALLOC, &event);
    return result;
}

FAKE_TEST(CudaEventsOwners, modules_behind_ucx)
{
    Fake fake;
    auto *list =
        const_cast<ucs_list_link_t *>(all_ucm().front()->event_installer_list);
    static ucm_event_installer_t ucx = {
        [](int) { return UCS_OK; }, nullptr, {list->prev, list}};
    list->prev->next = &ucx.list;
    list->prev       = &ucx.list;
    EXPECT_EQ(ucm::patch_function(fake.get<void>("cuModuleGetGlobal_v2"),
                                  reinterpret_cast<void *>(ucx_get_global),
                                  driver_get_global),
              nullptr);
    install_all();
    Events events;
    fake.get_global(MODULE);
    // UCX's event, and another one for managed memory.
    EXPECT_EQ(events.take().size(), 2u);
    expect_variable_released(fake, "cuModuleUnload", MODULE);
}

// The driver may refuse, as in a thread without a context. The variable then
// stays until a call succeeds.
HOOKED_TEST(CudaEventsOwners, modules_that_stay)
{
    const struct {
        const char *unload;
        uint64_t handle, module;
    } cases[] = {{"cuModuleUnload", MODULE, MODULE},
                 {"cuLibraryUnload", LIBRARY, fake.get_module(LIBRARY)}};
    for (const auto &each : cases) {
        const auto refuse = [&] {
            fake.setting("fake_result") = 201;
            fake.call(each.unload, each.handle);
            fake.setting("fake_result") = 0;
        };
        size_t frees;
        bool managed = false;
        refuse(); // before the variable is known
        fake.get_global(each.module);
        Events events;
        refuse();
        EXPECT_TRUE(ends_as_memory(events, VARIABLE, &frees, &managed));
        EXPECT_TRUE(managed);
        fake.get_global(each.module);
        EXPECT_TRUE(events.take().empty()); // nothing new
        expect_variable_released(fake, each.unload, each.handle);
    }
}

// The fate of a context's variables may be unknown. Later another module's
// variable has the same address.
HOOKED_TEST(CudaEventsOwners, modules_that_went_unseen)
{
    fake.get_global(MODULE);
    fake.set_query([](uint64_t) { return 709; }); // CONTEXT_IS_DESTROYED
    fake.call("cuCtxDestroy_v2", 0);
    fake.set_query(nullptr);
    fake.get_global(MODULE + 1);
    expect_variable_released(fake, "cuModuleUnload", MODULE + 1);
}

HOOKED_TEST(CudaEventsOwners, graphs)
{
    Events events;
    fake.call("cuGraphExecDestroy", 1);
    fake.call("cuDeviceGraphMemTrim", 0);
    EXPECT_TRUE(events.take().empty()); // no graph allocates memory

    fake.setting("fake_capturing") = 1;
    const uint64_t address         = fake.allocate_async(5);
    events.take();
    fake.call("cuMemFreeAsync", address, 5); // becomes a node
    fake.call("cuMemFreeAsync_ptsz", address, 0);
    EXPECT_TRUE(events.take().empty());
    expect_release_by(fake, "cuGraphExecDestroy", 0, 0, 1);
    expect_release_by(fake, "cuDeviceGraphMemTrim", 0, 0, 0);
}

} // namespace
} // namespace ucx_ib_dmabuf
