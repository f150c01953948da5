// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <climits>
#include <common/fakes.h>
#include <common/fds.h>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/rcache/rcache.h>

using ucx_ib_dmabuf::nic_id;
using ucx_ib_dmabuf::rcache;
using ucx_ib_dmabuf::region;

constexpr size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
// Bases of the tests' memory.
constexpr uintptr_t A = uintptr_t{1} << 40, B = A + GiB, C = B + GiB;

// A fake GPU, fake NICs and a cache. The destructor checks that nothing is left
// registered or open, and that the fakes have no complaints.
class cache_test : public testing::Test {
public:
    cache_test() : fds_(count_fds()), complaints_(fakes::complaints)
    {
        settings.deferred_size = SIZE_MAX;
        settings.patience      = std::chrono::minutes(10);
        while (nics.size() < 8) {
            nics.emplace_back(gpu).device_name = std::to_string(nics.size());
        }
        forking_ = &cache;
        ucx_ib_dmabuf::at_fork<nullptr, forget_parent>();
        restart();
    }

    ~cache_test() override
    {
        cache->leave_driver();
        cache->invalidate(0, SIZE_MAX);
        EXPECT_EQ(counters().regions, 0u);
        EXPECT_EQ(counters().registered_bytes, 0u);
        EXPECT_EQ(counters().mapped_bytes, 0u);
        forking_ = nullptr;
        cache.reset();
        for (const fakes::nic &each : nics) {
            EXPECT_EQ(each.live(), 0u);
            EXPECT_EQ(each.registered, each.deregistered);
        }
        EXPECT_EQ(count_fds(), fds_);
        EXPECT_EQ(fakes::complaints, complaints_);
    }

protected:
    using counters = fakes::counters;

    static constexpr auto normal     = rcache::effort::normal;
    static constexpr auto persistent = rcache::effort::persistent;

    // Makes a cache with the first NICs.
    void restart(unsigned count = 1)
    {
        cache.reset();
        ucx_ib_dmabuf::process_counters.clear();
        cache = std::make_unique<rcache>(gpu, settings);
        for (nic_id id = 0; id < count; ++id) {
            EXPECT_EQ(cache->attach(nics[id]), id);
        }
    }

    // Bases of allocations of 4 MiB each.
    static uintptr_t at(int i) { return A + i * 4 * MiB; }
    void alloc(int count, bool vmm = false)
    {
        for (int i = 0; i < count; ++i) {
            gpu.alloc(at(i), 4 * MiB, 0, true, vmm);
        }
    }
    // Allocates a VMM segment.
    void map(uintptr_t base, size_t size)
    {
        gpu.alloc(base, size, 0, true, true);
    }

    // Returns the status of a get. The region is put again at once.
    ucs_status_t get(uintptr_t address, size_t length,
                     rcache::effort how = normal, nic_id with = 0)
    {
        const region *got   = nullptr;
        ucs_status_t status = cache->get(with, address, length, &got, how);
        if (status == UCS_OK) {
            check(got, address, length);
            cache->put(got);
        }
        return status;
    }

    void use(uintptr_t address, size_t length, nic_id with = 0)
    {
        EXPECT_EQ(get(address, length, normal, with), UCS_OK);
    }

    const region *hold(uintptr_t address, size_t length, nic_id with = 0)
    {
        const region *got = nullptr;
        EXPECT_EQ(cache->get(with, address, length, &got), UCS_OK);
        if (got != nullptr) {
            check(got, address, length);
        }
        return got;
    }

    // Checks that the NIC reaches the memory that is at the address now.
    void check(const region *got, uintptr_t address, size_t length)
    {
        auto *what = static_cast<fakes::registration *>(got->handle);
        ASSERT_TRUE(what->live);
        EXPECT_LE(got->address, address);
        EXPECT_GE(got->address + got->length, address + length);
        EXPECT_EQ(what->id_at(address), gpu.id_at(address));
        EXPECT_EQ(what->id_at(address + length - 1),
                  gpu.id_at(address + length - 1));
    }

    // Sends the event, then frees the memory.
    void release(uintptr_t base)
    {
        cache->invalidate(base, gpu.size_at(base));
        gpu.free(base);
    }
    // As a driver's function that surely frees.
    void release_surely(uintptr_t base)
    {
        cache->release(base, gpu.size_at(base));
        gpu.free(base);
    }

    fakes::gpu gpu;
    std::deque<fakes::nic> nics;
    fakes::nic &nic = nics.emplace_back(gpu);
    ucx_ib_dmabuf::rcache_settings settings;
    std::unique_ptr<rcache> cache;
    const region *out = nullptr;

private:
    // As process_state does.
    static void forget_parent()
    {
        if (forking_ != nullptr) {
            (*forking_)->forget_parent();
            ucx_ib_dmabuf::process_counters.clear();
        }
    }

    inline static std::unique_ptr<rcache> *forking_;
    const int fds_;
    const uint64_t complaints_;
};
