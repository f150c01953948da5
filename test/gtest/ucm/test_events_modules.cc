// SPDX-License-Identifier: BSD-3-Clause
//
// Releases with modules and their libraries, and memory of graphs, on the
// driver library that does nothing.
#include "fake.h"
#include <gtest/gtest.h>
#include <ucm/code_patch.h>

namespace ucx_ib_dmabuf {
namespace {

using namespace test;

void expect_variable_released(const Fake &fake, const char *unload,
                              uint64_t handle)
{
    expect_release_by(fake, unload, VARIABLE, VARIABLE_SIZE, handle);
}

HOOKED_TEST(CudaEventsOwners, modules)
{
    Events events;
    fake.get_global(MODULE);
    CHECK_EQ(events.take().size(), size_t(1));
    fake.get_global(MODULE); // nothing new
    CHECK(events.take().empty());
    // Memory of an unknown pool, which still holds it.
    fake.call("cuMemFreeAsync", fake.allocate_async(), 0);
    events.take();
    fake.call("cuModuleUnload", MODULE + 1);
    CHECK(events.take().empty());
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
    CHECK(events.take().empty());
    expect_variable_released(fake, "cuLibraryUnload", LIBRARY);

    // The driver reuses the handle, for a separate module.
    fake.get_global(module);
    events.take();
    fake.call("cuLibraryUnload", LIBRARY);
    CHECK(events.take().empty());
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
    CHECK(ucm::patch_function(fake.get<void>("cuModuleGetGlobal_v2"),
                              reinterpret_cast<void *>(ucx_get_global),
                              driver_get_global) == nullptr);
    install_all();
    Events events;
    fake.get_global(MODULE);
    // UCX's event, and another one for managed memory.
    CHECK_EQ(events.take().size(), size_t(2));
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
        CHECK(ends_as_memory(events, VARIABLE, &frees, &managed));
        CHECK(managed);
        fake.get_global(each.module);
        CHECK(events.take().empty()); // nothing new
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
    CHECK(events.take().empty()); // no graph allocates memory

    fake.setting("fake_capturing") = 1;
    const uint64_t address         = fake.allocate_async(5);
    events.take();
    fake.call("cuMemFreeAsync", address, 5); // becomes a node
    fake.call("cuMemFreeAsync_ptsz", address, 0);
    CHECK(events.take().empty());
    expect_release_by(fake, "cuGraphExecDestroy", 0, 0, 1);
    expect_release_by(fake, "cuDeviceGraphMemTrim", 0, 0, 0);
}

} // namespace
} // namespace ucx_ib_dmabuf
