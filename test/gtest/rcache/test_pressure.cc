// SPDX-License-Identifier: BSD-3-Clause
//
// Memory pressure: each allocation of the cache fails in turn. A get succeeds
// or returns UCS_ERR_NO_MEMORY, leaks nothing and works the next time. Calls
// that need no memory are tested in gtest/md. The fakes are the world around
// the cache, so nothing fails in them.
#include "fixture.h"
#include <common/alloc_children.h>

using alloc_faults::armed;
using alloc_faults::each_in_a_child;
using alloc_faults::exempt;
using alloc_faults::plan;

namespace {

constexpr uintptr_t high    = uintptr_t{1} << 56;
constexpr uintptr_t nowhere = high / 2; // no memory is there
constexpr unsigned in_pool  = 12;       // small allocations

// Two NICs, with small adjacent allocations, large ones at both ends of the
// address space, and VMM segments.
class world : public cache_test {
public:
    explicit world(size_t max_regions = SIZE_MAX)
    {
        for (unsigned i = 0; i < in_pool; ++i) {
            gpu.alloc(A + i * 64 * KiB, 64 * KiB);
        }
        gpu.alloc(A + 64 * MiB, 32 * MiB);
        gpu.alloc(high, 4 * MiB);
        for (unsigned i = 0; i < 4; ++i) {
            map(A + 256 * MiB + i * 2 * MiB, 2 * MiB);
        }
        settings.chunk_size  = 8 * MiB;
        settings.max_regions = max_regions;
        restart(2);
    }
    void TestBody() override {}

    // UCX is C, so an exception ends the process here.
    bool try_use(nic_id with, uintptr_t address, size_t length) noexcept
    {
        const region *got         = nullptr;
        const ucs_status_t status = cache->get(with, address, length, &got);
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
        for (nic_id with : {0, 1}) {
            for (unsigned i = in_pool; i-- > 0;) {
                failed += !try_use(with, A + i * 64 * KiB, KiB);
            }
            failed += !try_use(with, A + 65 * MiB, MiB);
            failed += !try_use(with, A + 71 * MiB, 2 * MiB); // over two chunks
            failed += !try_use(with, high, MiB);
            failed += !try_use(with, A + 256 * MiB, 2 * MiB);
            failed += !try_use(with, A + 258 * MiB, 4 * MiB); // more segments
        }
        return failed;
    }

    using cache_test::cache;
    using cache_test::gpu;
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
    alarm(120); // ends a deadlock
    world lacks_room(6);
    here = &lacks_room;
    plan what{.inside = [] { here->cache->invalidate(nowhere, KiB); }};
    const region *held = nullptr;
    armed now(what);

    EXPECT_EQ(0u, here->use_all());
    EXPECT_EQ(UCS_OK, here->cache->get(0, high, KiB, &held));
    here->cache->release(high, 4 * MiB);
    here->cache->put(held);
    for (const ucs_status_t status : {UCS_ERR_NO_MEMORY, UCS_ERR_IO_ERROR}) {
        here->gpu.export_faults.fail_all(status);
        EXPECT_EQ(status, here->cache->get(0, high, KiB, &held));
    }
    here->cache->invalidate(0, SIZE_MAX);
    alarm(0);
}

} // namespace
