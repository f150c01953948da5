// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <utility>

// A failed registration is not tried again with each message. A refusal for
// lack of room is tried again when there may be room.
namespace {

class failures_test : public cache_test {
protected:
    // Returns how often a failing get exports and registers.
    uint64_t cost(uintptr_t address, size_t length, ucs_status_t status)
    {
        uint64_t before = calls();
        EXPECT_EQ(get(address, length), status);
        return calls() - before;
    }
    uint64_t calls() const
    {
        return gpu.export_faults.calls() + nic.reg_faults.calls();
    }
    // Returns whether one of many gets succeeds.
    bool succeeds_in_the_end(uintptr_t address, size_t length)
    {
        int tries = 0;
        while (tries < 1000 && get(address, length) != UCS_OK) {
            ++tries;
        }
        return tries < 1000;
    }
};

// A failed export is the same for all NICs.
TEST_F(failures_test, what_fails_is_tried_once)
{
    cache->attach(nics[1]);
    for (ucs_status_t status :
         {UCS_ERR_UNSUPPORTED, UCS_ERR_INVALID_PARAM, UCS_ERR_IO_ERROR}) {
        for (fakes::faults *fails : {&nic.reg_faults, &gpu.export_faults}) {
            const bool exporting = fails == &gpu.export_faults;
            alloc(3);
            fails->fail_all(status);
            EXPECT_GT(cost(at(0) + 8192, 8192, status), 0u);
            // Other errors than this may pass, see below.
            const int more = (status == UCS_ERR_UNSUPPORTED) ? 1000 : 10;
            for (int i = 0; i < more; ++i) {
                EXPECT_EQ(cost(at(0) + i * 100, 5000, status), 0u);
            }
            fails->clear();
            EXPECT_EQ(cost(at(0), 8192, status), 0u);
            EXPECT_EQ(get(at(0), 1, normal, 1), exporting ? status : UCS_OK);
            // Other memory works, and so does new memory at the same address.
            use(at(1), 1);
            release(at(0));
            gpu.alloc(at(0), 4 * MiB);
            use(at(0), 1);
            // A NIC that is attached again has no failures of its own.
            fails->fail_all(status);
            EXPECT_EQ(get(at(2), 1), status);
            fails->clear();
            cache->detach(0);
            cache->attach(nic);
            EXPECT_EQ(get(at(2), 1), exporting ? status : UCS_OK);
            for (int i : {0, 1, 2}) {
                release(at(i));
            }
        }
    }
}

TEST_F(failures_test, busy_is_not_for_ever)
{
    alloc(1);
    gpu.export_faults.fail_all(UCS_ERR_BUSY);
    EXPECT_EQ(get(at(0), 1), UCS_ERR_BUSY);
    gpu.export_faults.clear();
    use(at(0), 1);
}

// Only the latest failures are remembered.
TEST_F(failures_test, there_may_be_many)
{
    nic.reg_faults.fail_all(UCS_ERR_IO_ERROR);
    for (int i = 0; i < 1000; ++i) {
        gpu.alloc(at(i), MiB);
        EXPECT_EQ(get(at(i), 1), UCS_ERR_IO_ERROR);
        EXPECT_EQ(cost(at(i), 1, UCS_ERR_IO_ERROR), 0u);
    }
    nic.reg_faults.clear();
    cache->invalidate(0, SIZE_MAX);
    use(at(999), 1);
}

// The NIC has no room, however much is evicted.
TEST_F(failures_test, eviction_stops_when_it_does_not_help)
{
    alloc(10);
    for (int i = 0; i < 8; ++i) {
        use(at(i), 1);
    }
    nic.reg_faults.fail_all(UCS_ERR_NO_MEMORY);
    EXPECT_EQ(get(at(8), 4096), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(counters().evictions, 1u);
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(cost(at(8) + i * 100, 4096, UCS_ERR_NO_MEMORY), 0u);
    }
    EXPECT_EQ(counters().evictions, 1u);
    EXPECT_EQ(nic.live(), 7u);
}

// A release of other memory causes another attempt. If another process frees
// room, there is no event. The cache tries again now and then, and then uses
// all of the room. test_model has room that comes in this process.
TEST_F(failures_test, room_that_comes_is_found)
{
    for (const bool by_event : {true, false}) {
        alloc(12);
        nic.limit(4 * MiB);
        const region *held = hold(at(0), 1);
        EXPECT_EQ(get(at(1), 4 * MiB), UCS_ERR_NO_MEMORY);
        nic.limit(SIZE_MAX);
        EXPECT_EQ(cost(at(1), 4 * MiB, UCS_ERR_NO_MEMORY), 0u);
        if (by_event) {
            cache->invalidate(at(20), 1);
            use(at(1), 4 * MiB);
        }
        EXPECT_TRUE(succeeds_in_the_end(at(1), 4 * MiB));
        for (int i = 2; i < 12; ++i) {
            use(at(i), 4 * MiB);
        }
        cache->put(held);
        for (int i = 0; i < 12; ++i) {
            release(at(i));
        }
    }
}

TEST_F(failures_test, room_that_comes_meanwhile_is_found)
{
    settings.max_regions = 3;
    restart();
    alloc(4);
    gpu.alloc(at(8), 4096, 1);
    const region *first = hold(at(0), 1);

    // The last user of released memory puts its region.
    const region *second = hold(at(1), 1);
    nic.limit(8 * MiB);
    nic.after_refusal = [&] {
        release(at(1));
        cache->put(second);
    };
    get(at(2), 4 * MiB); // may find the room or not
    use(at(2), 4 * MiB);

    // An idle region is evicted for another request.
    nic.limit(8 * MiB + 4096);
    nic.after_refusal = [&] { second = hold(at(8), 1); };
    get(at(3), 4 * MiB);
    use(at(3), 4 * MiB);
    cache->put(second);

    // Memory without a registration is released.
    release(at(3));
    release(at(8));
    nic.limit(4 * MiB);
    nic.after_refusal = [&] {
        nic.limit(8 * MiB);
        cache->invalidate(at(9), MiB);
    };
    get(at(2), 4 * MiB);
    use(at(2), 4 * MiB);

    cache->put(first);
}

// A request too large for the NIC evicts other regions only once.
TEST_F(failures_test, what_never_fits_evicts_once)
{
    alloc(4);
    gpu.alloc(at(8), 64 * MiB);
    nic.limit(16 * MiB);
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 3; ++i) {
            use(at(i), 1);
        }
        use(at(8) + round * MiB, 4096);
    }
    EXPECT_LE(counters().evictions, 3u);
    EXPECT_LE(gpu.export_faults.calls(), 3u + 3u + 20u + 6u);
}

// A persistent get succeeds despite temporary and remembered failures. It
// returns a permanent failure after a few attempts, each with its own export.
TEST_F(failures_test, the_persistent_try_again)
{
    for (ucs_status_t status :
         {UCS_ERR_UNSUPPORTED, UCS_ERR_INVALID_PARAM, UCS_ERR_IO_ERROR,
          UCS_ERR_BUSY, UCS_ERR_NO_MEMORY}) {
        for (fakes::faults *fails : {&nic.reg_faults, &gpu.export_faults}) {
            restart();
            alloc(1);
            fails->fail_all(status);
            EXPECT_EQ(get(at(0), 4 * MiB), status);
            uint64_t before = calls();
            EXPECT_EQ(get(at(0), 4 * MiB, persistent), status);
            const uint64_t exports = fails == &nic.reg_faults ? 2 : 1;
            EXPECT_EQ(calls() - before, 4 * exports);
            fails->clear();
            fails->fail_call(1, status);
            EXPECT_EQ(get(at(0), 4 * MiB, persistent), UCS_OK);
            EXPECT_TRUE(fails->hit());
            release(at(0));
        }
    }
}

// Its success clears the remembered failure, so that other gets can register
// the rest of that memory.
TEST_F(failures_test, what_the_persistent_got_has_not_failed)
{
    for (fakes::faults *fails : {&nic.reg_faults, &gpu.export_faults}) {
        settings.chunk_size = MiB;
        restart();
        alloc(1);
        fails->fail_all(UCS_ERR_UNSUPPORTED);
        EXPECT_EQ(get(at(0), 1), UCS_ERR_UNSUPPORTED);
        fails->clear();
        EXPECT_EQ(get(at(0), 1), UCS_ERR_UNSUPPORTED);
        EXPECT_EQ(get(at(0), 1, persistent), UCS_OK);
        use(at(0) + 2 * MiB, 1);
        release(at(0));
    }
}

// Evicting the size of the request may not suffice: BAR1 is fragmented, or
// another process takes the room first.
TEST_F(failures_test, for_the_persistent_all_goes_that_may)
{
    alloc(9);
    for (int i = 0; i < 7; ++i) {
        use(at(i), 1);
    }
    const region *held = hold(at(7), 1);
    nic.limit(8 * MiB);
    EXPECT_EQ(get(at(8), 4 * MiB), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(counters().evictions, 1u);
    EXPECT_EQ(get(at(8), 4 * MiB, persistent), UCS_OK);
    EXPECT_EQ(counters().evictions, 7u);
    cache->put(held);
}

// Odd results of the exporter and of a registrar, and misuse. test_model lets
// each call fail.
using faults_test = cache_test;

// UCX's codes that are no failures, and codes that the cache uses internally.
TEST_F(faults_test, an_odd_answer_is_a_failure)
{
    gpu.alloc(A, MiB);
    for (ucs_status_t odd : {UCS_INPROGRESS, UCS_ERR_CANCELED}) {
        for (fakes::faults *each :
             {&gpu.describe_faults, &gpu.export_faults, &nic.reg_faults}) {
            each->fail_all(odd);
            EXPECT_EQ(get(A, 1), UCS_ERR_IO_ERROR);
            each->clear();
            cache->invalidate(A, MiB);
        }
    }
    use(A, 1);
    release(A);
}

// The exporter describes another range than the one asked for.
TEST_F(faults_test, nonsense_from_the_exporter)
{
    class liar : public fakes::gpu {
    public:
        ucs_status_t describe(uintptr_t,
                              ucx_ib_dmabuf::allocation *allocation) override
        {
            *allocation = answer;
            return UCS_OK;
        }
        ucx_ib_dmabuf::allocation answer;
    } exporter;
    rcache other(exporter, settings);
    auto with = other.attach(nic);
    for (auto [base, size] : {std::pair<uintptr_t, size_t>{A + 1, MiB},
                              {A, 99},
                              {A, SIZE_MAX},
                              {UINTPTR_MAX, MiB},
                              {0, 0}}) {
        exporter.answer.base = base;
        exporter.answer.size = size;
        EXPECT_EQ(other.get(with, A, 100, &out), UCS_ERR_INVALID_PARAM);
    }
}

// The memory is released again during each registration.
TEST_F(faults_test, gives_up_on_what_is_always_released)
{
    int warnings  = 0;
    settings.warn = [&](const char *) { ++warnings; };
    restart();
    gpu.alloc(A, MiB);
    gpu.each_call = [this](fakes::call what, uintptr_t address, size_t length) {
        if (what == fakes::call::export_range) {
            cache->invalidate(address, length);
        }
    };
    EXPECT_EQ(get(A, 100), UCS_ERR_BUSY);
    EXPECT_EQ(nic.live(), 0u);
    EXPECT_EQ(warnings, 1);
}

} // namespace
