// SPDX-License-Identifier: BSD-3-Clause
//
// Memory pressure: each allocation of the cache fails in turn. A get succeeds
// or returns UCS_ERR_NO_MEMORY, leaks nothing and works the next time. put(),
// invalidate() and detach() cannot fail, so they need no memory.
#include <common/alloc_children.h>
#include <common/fakes.h>
#include <common/fds.h>
#include <uct/ib_dmabuf/rcache/rcache.h>

using alloc_faults::armed;
using alloc_faults::each_in_a_child;
using alloc_faults::exempt;
using alloc_faults::plan;
using ucx_ib_dmabuf::region;

namespace {

constexpr size_t KiB        = 1024;
constexpr size_t MiB        = 1024 * KiB;
constexpr uintptr_t low     = uintptr_t{1} << 40;
constexpr uintptr_t high    = uintptr_t{1} << 56;
constexpr uintptr_t nowhere = high / 2; // no memory is there
constexpr unsigned in_pool  = 12;       // small allocations

// The fakes are the world around the cache, so nothing fails in them.
class steady_gpu : public fakes::gpu {
public:
    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::allocation *out) override
    {
        exempt from_it;
        return fakes::gpu::describe(address, out);
    }
    bool is_current(uintptr_t address, uint64_t identity) override
    {
        exempt from_it;
        return fakes::gpu::is_current(address, identity);
    }
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override
    {
        exempt from_it;
        return fakes::gpu::export_range(address, length, fd);
    }
};

class steady_nic : public fakes::nic {
public:
    using fakes::nic::nic;

    ucs_status_t reg(ucx_ib_dmabuf::dmabuf_exports &memory, int device,
                     uintptr_t address, size_t length, void **handle) override
    {
        exempt from_it;
        return fakes::nic::reg(memory, device, address, length, handle);
    }
    void dereg(void *handle) override
    {
        exempt from_it;
        fakes::nic::dereg(handle);
    }
};

// Two NICs, with small adjacent allocations, large ones at both ends of the
// address space, and VMM segments.
class world {
public:
    explicit world(size_t max_regions = SIZE_MAX)
        : fds_(count_fds()), complaints_(fakes::complaints)
    {
        for (unsigned i = 0; i < in_pool; ++i) {
            gpu.alloc(low + i * 64 * KiB, 64 * KiB);
        }
        gpu.alloc(low + 64 * MiB, 32 * MiB);
        gpu.alloc(high, 4 * MiB);
        for (unsigned i = 0; i < 4; ++i) {
            gpu.alloc(low + 256 * MiB + i * 2 * MiB, 2 * MiB, 0, true, true);
        }
        settings.chunk_size    = 8 * MiB;
        settings.max_regions   = max_regions;
        settings.deferred_size = SIZE_MAX;
        cache  = std::make_unique<ucx_ib_dmabuf::rcache>(gpu, settings);
        first  = cache->attach(nics[0]);
        second = cache->attach(nics[1]);
    }
    ~world()
    {
        cache.reset();
        for (const fakes::nic &nic : nics) {
            EXPECT_EQ(0u, nic.live());
            EXPECT_EQ(nic.registered, nic.deregistered);
        }
        EXPECT_EQ(fds_, count_fds());
        EXPECT_EQ(complaints_, fakes::complaints);
    }

    // UCX is C, so an exception ends the process here.
    bool use(ucx_ib_dmabuf::rcache::nic_id nic, uintptr_t address,
             size_t length) noexcept
    {
        const region *got         = nullptr;
        const ucs_status_t status = cache->get(nic, address, length, &got);
        if (status == UCS_OK) {
            cache->put(got);
        }
        exempt from_it;
        EXPECT_TRUE(status == UCS_OK || status == UCS_ERR_NO_MEMORY)
            << "status " << int{status};
        return status == UCS_OK;
    }
    // Makes gets of every kind. Returns the number of failures.
    unsigned use_all()
    {
        unsigned failed = 0;
        for (auto nic : {first, second}) {
            for (unsigned i = in_pool; i-- > 0;) {
                failed += !use(nic, low + i * 64 * KiB, KiB);
            }
            failed += !use(nic, low + 65 * MiB, MiB);
            failed += !use(nic, low + 71 * MiB, 2 * MiB); // over two chunks
            failed += !use(nic, high, MiB);
            failed += !use(nic, low + 256 * MiB, 2 * MiB);
            failed += !use(nic, low + 258 * MiB, 4 * MiB); // more segments
        }
        return failed;
    }

    steady_gpu gpu;
    steady_nic nics[2] = {steady_nic(gpu), steady_nic(gpu)};
    ucx_ib_dmabuf::rcache_settings settings;
    std::unique_ptr<ucx_ib_dmabuf::rcache> cache;
    ucx_ib_dmabuf::rcache::nic_id first, second;

private:
    const int fds_;
    const uint64_t complaints_;
};

class test_pressure : public alloc_faults::forking_test {};

TEST_F(test_pressure, every_kind_of_get)
{
    for (size_t max_regions : {SIZE_MAX, size_t{6}}) {
        const unsigned count = each_in_a_child([&](plan &what) {
            world here(max_regions);
            unsigned failed;
            {
                armed now(what);
                failed = here.use_all();
            }
            EXPECT_TRUE(what.failed || failed == 0);
            EXPECT_EQ(0u, here.use_all());
        });
        EXPECT_GE(count, 5u);
    }
}

// An allocator may release GPU memory, which notifies the cache at once.
TEST_F(test_pressure, an_allocator_calls_the_cache)
{
    static world *here;
    alarm(20); // ends a deadlock
    world lacks_room(6);
    here = &lacks_room;
    plan what{.inside = [] { here->cache->invalidate(nowhere, KiB); }};
    const region *held = nullptr;
    armed now(what);

    EXPECT_EQ(0u, here->use_all());
    EXPECT_EQ(UCS_OK, here->cache->get(here->first, high, KiB, &held));
    here->cache->release(high, 4 * MiB);
    here->cache->put(held);
    for (const ucs_status_t status : {UCS_ERR_NO_MEMORY, UCS_ERR_IO_ERROR}) {
        here->gpu.export_faults.fail_all(status);
        EXPECT_EQ(status, here->cache->get(here->first, high, KiB, &held));
    }
    here->cache->invalidate(0, SIZE_MAX);
    alarm(0);
}

TEST_F(test_pressure, what_cannot_fail_needs_no_memory)
{
    auto attach = [](plan &what) {
        world here;
        steady_nic more(here.gpu);
        armed now(what);
        const auto id = here.cache->attach(more);
        here.cache->detach(id);
    };
    auto invalidate = [](plan &what) {
        world here;
        EXPECT_EQ(0u, here.use_all());
        armed now(what);
        here.cache->invalidate(low + 3 * 64 * KiB, 64 * KiB);
        here.cache->invalidate(high, MiB);
        here.cache->invalidate(0, SIZE_MAX);
        EXPECT_EQ(0u, here.nics[0].live() + here.nics[1].live());
    };
    auto put = [](plan &what) {
        world here;
        const region *held = nullptr, *gone = nullptr;
        EXPECT_EQ(UCS_OK, here.cache->get(here.first, low, KiB, &held));
        EXPECT_EQ(UCS_OK, here.cache->get(here.first, high, KiB, &gone));
        here.cache->invalidate(high, KiB);
        armed now(what);
        here.cache->put(held);
        here.cache->put(gone);
    };
    auto detach = [](plan &what) {
        world here;
        EXPECT_EQ(0u, here.use_all());
        armed now(what);
        here.cache->check_identity();
        here.cache->detach(here.first);
        here.cache->detach(here.second);
        EXPECT_EQ(0u, here.nics[0].live() + here.nics[1].live());
    };

    EXPECT_EQ(0u, each_in_a_child(attach));
    EXPECT_EQ(0u, each_in_a_child(invalidate));
    EXPECT_EQ(0u, each_in_a_child(put));
    EXPECT_EQ(0u, each_in_a_child(detach));
}

} // namespace
