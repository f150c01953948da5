// SPDX-License-Identifier: BSD-3-Clause
//
// The overridden memory domain with another vendor's GPU, over a fake uct_ib.
// The process has no libcuda.
#include "fake_domain.h"
#include <common/fakes.h>
#include <dlfcn.h>
#include <uct/ib_dmabuf/md/memory_domain.h>
#include <uct/ib_dmabuf/md/process_state.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr size_t mib     = 1 << 20;
constexpr uintptr_t base = uintptr_t{1} << 40;

// GPUs with the fakes' memory, all of it beyond `base`.
class table_vendor final : public gpu_vendor {
public:
    fakes::gpu memory;
    listener *told = nullptr;

    void release(uintptr_t address)
    {
        told->on_change(address, memory.size_at(address));
        memory.free(address);
    }

    ucs_status_t describe(uintptr_t address, allocation *out) override
    {
        return memory.describe(address, out);
    }
    bool is_current(uintptr_t address, uint64_t identity) override
    {
        return memory.is_current(address, identity);
    }
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override
    {
        return memory.export_range(address, length, fd);
    }
    size_t granularity() const override { return memory.granularity(); }
    const char *name() const noexcept override { return "table"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_ROCM; // any but CUDA's
    }
    bool may_be_device(uintptr_t address, size_t) const noexcept override
    {
        return address - base < 64 * mib;
    }
    size_t max_registered(int) override { return SIZE_MAX; }
    ucs_status_t copy_to_host(void *, uintptr_t, size_t) override
    {
        return UCS_ERR_UNSUPPORTED;
    }
    ucs_status_t copy_from_host(uintptr_t, const void *, size_t) override
    {
        return UCS_ERR_UNSUPPORTED;
    }
    void watch(listener &to) noexcept override { told = &to; }
};

table_vendor *vendor; // the plug-in's

std::unique_ptr<gpu_vendor> find_table()
{
    auto made = std::make_unique<table_vendor>();
    vendor    = made.get();
    return made;
}

} // namespace

// As that of module.cc, which names CUDA's vendor.
extern "C" ucs_status_t ucs_module_global_init()
{
    serve_new_instances(
        {[](ucx_instance &instance) {
             return process_state::enable(instance.parser(), find_table);
         },
         override_md, do_gpu_atomic, get_gpu_memh, [](ucx_instance &) {}});
    return UCS_OK;
}

namespace {

class test_vendor : public testing::Test {
protected:
    // Registers a range, and deregisters it. Returns the live registrations.
    size_t use(uintptr_t address, size_t length)
    {
        EXPECT_EQ(UCS_OK, md_.dereg(md_.reg(address, length)));
        EXPECT_EQ(0u, fakes::complaints);
        return fake_ib::now.regions.size();
    }
    static const ibv_mr &last() { return **fake_ib::now.regions.begin(); }

    fake_domain md_;
};

TEST_F(test_vendor, its_type_is_among_those_registered)
{
    EXPECT_EQ(1u << UCS_MEMORY_TYPE_HOST | 1u << UCS_MEMORY_TYPE_ROCM,
              md_.query().reg_mem_types);
    EXPECT_EQ(nullptr, dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
}

TEST_F(test_vendor, memory_is_registered_once_until_it_is_released)
{
    vendor->memory.alloc(base, mib); // deregistered in this thread
    EXPECT_EQ(1u, use(base + 100, 1000));
    EXPECT_EQ(1u, use(base + mib / 2, mib / 2));
    EXPECT_EQ(base, reinterpret_cast<uintptr_t>(last().addr));
    EXPECT_EQ(mib, last().length);
    vendor->release(base);
    EXPECT_TRUE(fake_ib::now.regions.empty());
    EXPECT_EQ(0u, fake_ib::now.asked);
}

TEST_F(test_vendor, segments_are_one_range)
{
    for (const uintptr_t at : {base, base + mib}) {
        vendor->memory.alloc(at, mib, 0, true, true);
    }
    EXPECT_EQ(1u, use(base + mib - 100, 200));
    EXPECT_EQ(2 * mib, last().length);
    vendor->release(base);
    vendor->release(base + mib);
}

TEST_F(test_vendor, host_memory_is_passed_on)
{
    char host[100];

    EXPECT_EQ(0u, use(reinterpret_cast<uintptr_t>(host), sizeof(host)));
    EXPECT_EQ(1u, std::exchange(fake_ib::now.asked, 0));
}

// Runs last, as events stay missed from then on.
class test_vendor_late : public test_vendor {};

TEST_F(test_vendor_late, missed_events_cost_no_byte)
{
    vendor->memory.alloc(base, mib);
    use(base, mib);
    const uint32_t key = last().lkey;
    vendor->told->on_events_missed("the test says so");
    vendor->memory.free(base);
    vendor->memory.alloc(base, mib);
    EXPECT_EQ(1u, use(base, mib));
    EXPECT_NE(key, last().lkey);
    vendor->memory.free(base);
}

} // namespace
