// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <utility>
#include <vector>

// Odd results of the exporter and of a registrar, and misuse. test_model lets
// each call fail.
namespace {

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

// The whole allocation cannot be registered, but the requested range can.
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
    ucx_ib_dmabuf::rcache other(exporter, settings);
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

TEST_F(faults_test, too_many_nics)
{
    std::vector<ucx_ib_dmabuf::rcache::nic_id> ids;
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
        "users > 0");
}

} // namespace
