// SPDX-License-Identifier: BSD-3-Clause
//
// What a cuda_copy of UCX's own says of memory, after it was corrected.
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/cuda_copy/component.h>
#include <uct/ib_dmabuf/ucx/library.h>
extern "C" {
#include <ucs/config/global_opts.h>
#include <ucs/memory/memtype_cache.h>
}

namespace ours = ucx_ib_dmabuf;

// No installed header declares it.
extern "C" void uct_component_register(ours::uct_component_t *component);

namespace {

constexpr auto cuda = ours::UCS_MEMORY_TYPE_CUDA;

// Memory that begins with its type, its device and whether it is exportable.
struct memory {
    ours::ucs_memory_type_t type = cuda;
    uint8_t sys_dev              = 0;
    bool exportable              = true;
    char rest[100]               = {};
};

struct exports final : ours::cuda_copy_ops {
    bool has_gpu() noexcept override { return true; }
    bool begin() noexcept override { return true; }
    ours::ucs_status_t detect(uintptr_t, size_t, found *) noexcept override
    {
        return ours::UCS_ERR_INVALID_ADDR;
    }
    bool is_exportable(uintptr_t address) noexcept override
    {
        ++asked;
        return reinterpret_cast<memory *>(address)->exportable;
    }
    bool place(int, pci_address *) noexcept override { return false; }
    ours::ucs_status_t copy(void *, const void *, size_t,
                            const void *) noexcept override
    {
        return ours::UCS_ERR_UNSUPPORTED;
    }

    int asked = 0;
} knows;

// As the one of UCX that does not export.
ours::ucs_status_t mem_query(ours::uct_md_h, const void *address, size_t,
                             ours::uct_md_mem_attr_t *attr) noexcept
{
    const auto *at     = static_cast<const memory *>(address);
    attr->mem_type     = at->type;
    attr->sys_dev      = at->sys_dev;
    attr->base_address = const_cast<memory *>(at);
    attr->alloc_length = sizeof(memory);
    attr->mem_flags    = ours::UCS_MEM_FLAG_REGISTRABLE;
    return ours::UCS_OK;
}

// Memory that the component allocates.
memory allocated;

ours::ucs_status_t mem_alloc(ours::uct_md_h, size_t *length, void **address,
                             ours::ucs_memory_type_t, uint8_t, unsigned,
                             const char *, ours::uct_mem_h *) noexcept
{
    *length  = sizeof(allocated);
    *address = &allocated;
    return ours::UCS_OK;
}

void *ops[ours::max_md_ops];
ours::uct_component_t component{};
ours::uct_md_t md{};

ours::ucs_status_t md_open(ours::uct_component_t *, const char *, const void *,
                           ours::uct_md_h *out) noexcept
{
    md   = {ops, &component};
    *out = &md;
    return ours::UCS_OK;
}

// Returns the flags of a domain of the component.
uint8_t flags_of(memory &at)
{
    using query = decltype(mem_query);
    ours::uct_md_mem_attr_t attr{};
    ours::uct_md_h opened = nullptr;

    component.md_open(&component, "", nullptr, &opened);
    attr.field_mask = ours::UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS;
    reinterpret_cast<query *>(opened->ops[ours::op_mem_query])(
        opened, &at, sizeof(at), &attr);
    EXPECT_EQ(ours::UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS, attr.field_mask);
    return attr.mem_flags;
}

void allocate()
{
    size_t length         = 1;
    void *address         = nullptr;
    ours::uct_md_h opened = nullptr;

    component.md_open(&component, "", nullptr, &opened);
    EXPECT_EQ(ours::UCS_OK,
              reinterpret_cast<decltype(mem_alloc) *>(
                  opened->ops[ours::op_mem_alloc])(opened, &length, &address,
                                                   cuda, 0, 0, "", nullptr));
    EXPECT_EQ(&allocated, address);
}

void correct_and_ask()
{
    const auto uct = ours::library::around(
        reinterpret_cast<void *>(&uct_component_register));
    memory good, bad, managed, host;

    bad.exportable = host.exportable = false;
    managed.type                     = ours::UCS_MEMORY_TYPE_CUDA_MANAGED;
    host.sys_dev                     = ours::unknown_sys_device;
    EXPECT_FALSE(ours::correct_cuda_copy(uct, knows));
    strcpy(component.name, "cuda_cpy");
    component.md_open       = md_open;
    ops[ours::op_mem_alloc] = reinterpret_cast<void *>(&mem_alloc);
    ops[ours::op_mem_query] = reinterpret_cast<void *>(&mem_query);
    uct_component_register(&component);
    EXPECT_TRUE(ours::correct_cuda_copy(uct, knows));
    EXPECT_TRUE(ours::correct_cuda_copy(uct, knows)); // does nothing
    EXPECT_EQ(ours::UCS_MEM_FLAG_REGISTRABLE, flags_of(good));
    EXPECT_EQ(0, flags_of(bad));
    EXPECT_EQ(2, knows.asked);
    EXPECT_EQ(0, flags_of(managed));
    EXPECT_EQ(ours::UCS_MEM_FLAG_REGISTRABLE, flags_of(host));
    EXPECT_EQ(2, knows.asked);
    allocate(); // corrected, too, as UCX asks no more
    EXPECT_EQ(3, knows.asked);
}

// A component stays registered, so this runs in a process of its own.
TEST(test_registrable, only_what_is_exported_is_registrable)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            correct_and_ask();
            exit(testing::Test::HasFailure());
        },
        testing::ExitedWithCode(0), "");
}

} // namespace
