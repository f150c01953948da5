// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <utility>
#include <vector>

// Every call of the exporter and of a registrar failing in turn at every step;
// misuse.
namespace {

class faults_test : public cache_test {
protected:
    // A life with every kind of call in it. Any get may fail; says how often.
    int live()
    {
        settings.chunk_size = 4 * MiB;
        restart();
        fakes::nic other(gpu);
        auto second  = cache->attach(other);
        int failures = 0;
        auto try_get = [&](ucx_ib_dmabuf::cache::nic_id with, uintptr_t at,
                           size_t length) {
            const region *got   = nullptr;
            ucs_status_t status = cache->get(with, at, length, &got);
            failures += status != UCS_OK;
            EXPECT_TRUE(status == UCS_OK || status == fault) << status;
            return got;
        };
        if (reg_fault_call != 0) {
            nic.reg_faults.fail_call(reg_fault_call, fault);
            other.reg_faults.fail_call(reg_fault_call, fault);
        }
        gpu.alloc(A, 16 * MiB);
        gpu.alloc(A + 16 * MiB, MiB);
        cache->put(try_get(id, A, 100));
        cache->put(try_get(second, A, 100));
        const region *held = try_get(id, A + 3 * MiB, 2 * MiB);
        cache->put(try_get(id, A + 5 * MiB, 6 * MiB));
        cache->put(try_get(second, A + 16 * MiB, MiB));
        cache->put(try_get(id, A + 16 * MiB, MiB));
        release(A);
        gpu.alloc(A, 16 * MiB);
        cache->put(try_get(id, A, 16 * MiB));
        cache->put(held);
        release(A);
        release(A + 16 * MiB);
        EXPECT_EQ(nic.live(), 0u);
        EXPECT_EQ(other.live(), 0u);
        EXPECT_EQ(counters().regions, 0u);
        EXPECT_EQ(counters().registered_bytes, 0u);
        cache->detach(second);
        return failures;
    }

    ucs_status_t fault      = UCS_ERR_IO_ERROR;
    uint64_t reg_fault_call = 0;
};

// Words of UCX's that are no failures, and what the cache's functions say to
// each other.
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

TEST_F(faults_test, every_call_in_turn)
{
    ASSERT_EQ(live(), 0);
    for (ucs_status_t each : {UCS_ERR_IO_ERROR, UCS_ERR_NO_MEMORY,
                              UCS_ERR_EXCEEDS_LIMIT, UCS_ERR_UNSUPPORTED}) {
        fault = each;
        for (uint64_t call = 1; call < 24; ++call) {
            gpu.describe_faults.fail_call(call, fault);
            live();
            gpu.describe_faults.clear();
            gpu.export_faults.fail_call(call, fault);
            live();
            gpu.export_faults.clear();
            reg_fault_call = call;
            live();
            reg_fault_call = 0;
            nic.reg_faults.clear();
        }
    }
}

TEST_F(faults_test, every_call)
{
    fault = UCS_ERR_IO_ERROR;
    gpu.describe_faults.fail_all(fault);
    EXPECT_EQ(live(), 7);
    gpu.describe_faults.clear();
    gpu.export_faults.fail_all(fault);
    EXPECT_EQ(live(), 7);
    gpu.export_faults.clear();
    nic.reg_faults.fail_all(fault);
    EXPECT_EQ(live(), 5); // the other NIC is no worse off
    nic.reg_faults.clear();
}

// The whole allocation cannot be had, what is asked for can.
TEST_F(faults_test, exact_range_where_the_whole_fails)
{
    gpu.alloc(A, 8 * MiB);
    gpu.export_faults.fail_call(1);
    use(A + MiB, 4096);
    EXPECT_EQ(nic.bytes(), 4096u);
    use(A + 2 * MiB, 4096);
    EXPECT_EQ(nic.bytes(), 8 * MiB);
    EXPECT_EQ(nic.live(), 1u);
}

// An exporter that describes something else than it was asked for.
TEST_F(faults_test, nonsense_from_the_exporter)
{
    class liar : public fakes::gpu {
    public:
        ucs_status_t describe(uintptr_t, ucx_ib_dmabuf::extent *extent) override
        {
            *extent = answer;
            return UCS_OK;
        }
        ucx_ib_dmabuf::extent answer;
    } exporter;
    ucx_ib_dmabuf::cache other(exporter, settings);
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

// Released again as soon as it is registered, without end.
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

TEST_F(faults_test, too_many_nics)
{
    std::vector<ucx_ib_dmabuf::cache::nic_id> ids;
    for (int i = 0; i < 255; ++i) {
        ids.push_back(cache->attach(nic));
    }
    gpu.alloc(A, MiB);
    auto beyond = cache->attach(nic);
    EXPECT_EQ(cache->get(beyond, A, 1, &out), UCS_ERR_INVALID_PARAM);
    cache->detach(beyond);
    EXPECT_EQ(cache->get(ids.back(), A, 1, &out), UCS_OK);
    cache->put(out);
    for (auto each : ids) {
        cache->detach(each);
    }
}

using misuse_death_test = faults_test;

TEST_F(misuse_death_test, giving_back_twice_is_caught)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            gpu.alloc(A, MiB);
            const region *got = hold(A, 1);
            cache->put(got);
            cache->put(got);
        },
        "given back more often than acquired");
}

} // namespace
