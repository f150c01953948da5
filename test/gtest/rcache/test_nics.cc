// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"

// Several NICs: how they share a GPU's budget and exports.
namespace {

class nics_test : public cache_test {
protected:
    void start(unsigned count, size_t limit)
    {
        settings.max_bytes = [limit](int) { return limit; };
        restart(count);
    }
};

// NICs start one after the other. The second one has its own mappings while
// there is room; then they replace the first NIC's.
TEST_F(nics_test, a_nic_that_comes_late_finds_room)
{
    gpu.alloc(A, 80 * GiB);
    start(2, 115 * GiB);
    for (int round = 0; round < 2; ++round) {
        for (unsigned with : {0u, 1u}) {
            for (int i = 0; i < 20; ++i) {
                use(A + i * 4 * GiB, MiB, with);
            }
        }
    }
    EXPECT_EQ(counters().regions, 40u);
    EXPECT_LE(gpu.max_mapped(0), 115 * GiB);
    uint64_t before = counters().hits;
    for (int i = 0; i < 200; ++i) {
        use(A + i % 20 * 4 * GiB, MiB, i % 2);
    }
    EXPECT_EQ(counters().hits - before, 200u);
}

TEST_F(nics_test, nics_in_use_share_an_export)
{
    start(2, SIZE_MAX);
    alloc(4);
    use(at(0), MiB, 0);
    EXPECT_EQ(nics[1].live(), 0u); // not in use yet
    use(at(0), 1, 1);
    use(at(1), 1, 1);
    EXPECT_EQ(counters().exports, 3u);
    use(at(2), MiB, 0);
    EXPECT_EQ(counters().exports, 4u);
    EXPECT_EQ(nics[1].live(), 3u);
    nics[1].reg_faults.fail_call(1);
    use(at(3), MiB, 0); // although the other NIC fails
    EXPECT_EQ(nics[1].live(), 3u);
    cache->detach(1);
    EXPECT_EQ(nics[1].live(), 0u);
    EXPECT_EQ(nics[0].live(), 3u);
}

// Each of eight GPUs has its own NIC: no NIC registers another's memory.
TEST_F(nics_test, companions_are_those_that_need_as_much)
{
    start(8, SIZE_MAX);
    for (int round = 0; round < 8; ++round) {
        for (int device = 0; device < 8; ++device) {
            uintptr_t at = A + (device * 8 + round) * 4 * MiB;
            gpu.alloc(at, 4 * MiB, device);
            use(at, MiB, device);
        }
    }
    EXPECT_EQ(counters().registrations, 64u);
    EXPECT_EQ(counters().exports, 64u);
    // A second NIC that rarely uses a GPU registers only its own requests.
    uintptr_t next = A + 64 * 4 * MiB;
    auto use_new   = [&](unsigned with) {
        gpu.alloc(next, 4 * MiB, 0);
        use(next, MiB, with);
        next += 4 * MiB;
    };
    for (int i = 0; i < 3; ++i) {
        use(A + i * 4 * MiB, MiB, 1);
        use_new(0);
    }
    EXPECT_EQ(counters().registrations, 70u);
    EXPECT_EQ(nics[1].live(), 11u);
    // If it uses the GPU more often, both NICs register that GPU's memory.
    for (int i = 3; i < 6; ++i) {
        use(A + i * 4 * MiB, MiB, 1);
    }
    EXPECT_EQ(counters().registrations, 73u);
    use_new(0);
    EXPECT_EQ(counters().registrations, 75u);
    EXPECT_EQ(nics[1].live(), 15u);
    EXPECT_EQ(nics[2].live(), 8u);
    // This stops when the second NIC uses none of it.
    for (int i = 0; i < 20; ++i) {
        use_new(0);
    }
    EXPECT_LE(nics[1].live(), 17u);
}

// If a NIC fails, its idle regions are deregistered at once, and others by
// their last user. The other NIC's regions stay.
TEST_F(nics_test, what_a_nic_drops_is_registered_anew)
{
    gpu.alloc(A, MiB);
    gpu.alloc(B, MiB);
    start(2, SIZE_MAX);
    for (unsigned with : {0u, 1u}) {
        use(A, MiB, with);
        use(B, MiB, with);
    }
    const region *used = hold(A, MiB);
    cache->drop(nic.name());
    EXPECT_FALSE(cache->is_revoked(used));
    EXPECT_EQ(nics[0].live(), 1u);
    EXPECT_EQ(nics[1].live(), 2u);
    EXPECT_EQ(cache->find(0, A, MiB), nullptr);
    const region *anew = hold(A, MiB);
    EXPECT_NE(anew->handle, used->handle);
    EXPECT_EQ(nics[0].live(), 2u);
    cache->put(used);
    EXPECT_EQ(nics[0].live(), 1u);
    cache->put(anew);
    EXPECT_EQ(nics[0].live(), 1u);
    cache->drop(nic.name());
    cache->drop(nic.name());
    EXPECT_EQ(counters().regions, 2u);
}

// The registration may be older than the NIC's failure.
TEST_F(nics_test, what_is_registered_during_a_drop_is_registered_once_more)
{
    gpu.alloc(A, MiB);
    start(2, SIZE_MAX);
    for (const unsigned dropped : {1u, 0u}) {
        const uint64_t before = nics[0].registered;
        nics[0].during_reg    = [&] { cache->drop(nics[dropped].name()); };
        use(A, MiB, 0);
        EXPECT_EQ(nics[0].registered - before, dropped == 0 ? 2u : 1u);
        EXPECT_EQ(nics[0].live(), 1u);
        cache->drop(nic.name());
    }
}

} // namespace
