// SPDX-License-Identifier: BSD-3-Clause
//
// Releases with modules and their libraries, and memory of graphs, on the
// driver library that does nothing.
#include <gtest/gtest.h>

#include "fake.h"
#include <ucm/code_patch.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

FAKE_TEST(CudaEventsOwners, modules)
{
    Fake fake;
    install_all();
    uint64_t address;
    size_t size;
    auto *get = fake.get<GetGlobal>("cuModuleGetGlobal_v2");
    Events events;
    get(&address, &size, 0x77, "a");
    CHECK_EQ(events.take().size(), size_t(1));
    get(&address, &size, 0x77, "a"); // nothing new
    CHECK(events.take().empty());
    // Memory of an unknown pool, which still holds it.
    uint64_t freed;
    fake.get<Alloc3>("cuMemAllocAsync")(&freed, 0x5000, 0);
    fake.get<Call2>("cuMemFreeAsync")(freed, 0);
    events.take();
    fake.get<Call1>("cuModuleUnload")(0x78);
    CHECK(events.take().empty());
    // A range that was released unseen seems to enclose the variable.
    uint64_t stale = address - 0x100;
    fake.place(stale, stale - NEW);
    fake.get<Alloc>("cuMemAlloc_v2")(&stale, 0x5000);
    expect_release(fake, "cuModuleUnload", address, 0x400,
                   [&] { fake.get<Call1>("cuModuleUnload")(0x77); });
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
    auto *get = fake.get<GetGlobal>("cuModuleGetGlobal_v2");
    auto *list =
        const_cast<ucs_list_link_t *>(all_ucm().front()->event_installer_list);
    static ucm_event_installer_t ucx = {
        [](int) { return UCS_OK; }, nullptr, {list->prev, list}};
    list->prev->next = &ucx.list;
    list->prev       = &ucx.list;
    CHECK(ucm::patch_function(reinterpret_cast<void *>(get),
                              reinterpret_cast<void *>(ucx_get_global),
                              driver_get_global) == nullptr);
    install_all();
    uint64_t address;
    size_t size;
    Events events;
    get(&address, &size, 0x77, "a");
    // UCX's event, and another one for managed memory.
    CHECK_EQ(events.take().size(), size_t(2));
    expect_release(fake, "cuModuleUnload", address, size,
                   [&] { fake.get<Call1>("cuModuleUnload")(0x77); });
}

// The driver may refuse, as in a thread without a context. The variable then
// stays until a call succeeds.
FAKE_TEST(CudaEventsOwners, modules_that_stay)
{
    constexpr uint64_t library = 0x90;
    Fake fake;
    install_all();
    auto *get = fake.get<GetGlobal>("cuModuleGetGlobal_v2");
    uint64_t module, address;
    size_t size, frees;
    bool managed = false;
    fake.get<Call2>("cuLibraryGetModule")(uint64_t(&module), library);
    const struct {
        const char *unload;
        uint64_t handle, owner;
    } cases[] = {{"cuModuleUnload", 0x77, 0x77},
                 {"cuLibraryUnload", library, module}};
    for (const auto &one : cases) {
        auto *unload      = fake.get<Call1>(one.unload);
        const auto refuse = [&] {
            fake.setting("fake_result") = 201;
            unload(one.handle);
            fake.setting("fake_result") = 0;
        };
        refuse(); // before the variable is known
        get(&address, &size, one.owner, "a");
        Events events;
        refuse();
        CHECK(ends_as_memory(events, address, &frees, &managed));
        CHECK(managed);
        get(&address, &size, one.owner, "a");
        CHECK(events.take().empty()); // nothing new
        expect_release(fake, one.unload, address, size,
                       [&] { unload(one.handle); });
    }
}

// The fate of a context's variables may be unknown. Later another module's
// variable has the same address.
FAKE_TEST(CudaEventsOwners, modules_that_went_unseen)
{
    Fake fake;
    install_all();
    auto *get = fake.get<GetGlobal>("cuModuleGetGlobal_v2");
    uint64_t address;
    size_t size;
    get(&address, &size, 0x77, "a");
    set_query(fake, [](uint64_t) { return 709; }); // CONTEXT_IS_DESTROYED
    fake.get<Call1>("cuCtxDestroy_v2")(0);
    set_query(fake, nullptr);
    get(&address, &size, 0x78, "a");
    expect_release(fake, "cuModuleUnload", address, size,
                   [&] { fake.get<Call1>("cuModuleUnload")(0x78); });
}

FAKE_TEST(CudaEventsOwners, graphs)
{
    Fake fake;
    install_all();
    Events events;
    fake.get<Call1>("cuGraphExecDestroy")(1);
    fake.get<Device>("cuDeviceGraphMemTrim")(0);
    CHECK(events.take().empty()); // no graph allocates memory

    uint64_t address;
    fake.setting("fake_capturing") = 1;
    fake.get<Alloc3>("cuMemAllocAsync")(&address, 0x5000, 5);
    events.take();
    fake.get<Call2>("cuMemFreeAsync")(address, 5); // becomes a node
    fake.get<Call2>("cuMemFreeAsync_ptsz")(address, 0);
    CHECK(events.take().empty());
    expect_release(fake, "cuGraphExecDestroy", 0, 0,
                   [&] { fake.get<Call1>("cuGraphExecDestroy")(1); });
    expect_release(fake, "cuDeviceGraphMemTrim", 0, 0,
                   [&] { fake.get<Device>("cuDeviceGraphMemTrim")(0); });
}

} // namespace
} // namespace ucx_ib_dmabuf
