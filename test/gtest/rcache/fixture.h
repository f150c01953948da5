// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <climits>
#include <common/fakes.h>
#include <common/fds.h>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/rcache/rcache.h>

using ucx_ib_dmabuf::region;

constexpr size_t MiB  = size_t{1} << 20;
constexpr uintptr_t A = uintptr_t{1} << 40; // base of the tests' memory

// A fake GPU, a fake NIC and a cache. The destructor checks that nothing is
// left registered or open, and that the fakes have no complaints.
class cache_test : public testing::Test {
public:
    cache_test() : fds_(count_fds()), complaints_(fakes::complaints)
    {
        settings.deferred_size = SIZE_MAX;
        forking                = &cache;
        ucx_ib_dmabuf::at_fork<nullptr, forget_parent>();
        restart();
    }

    ~cache_test() override
    {
        if (cache != nullptr) {
            cache->invalidate(0, SIZE_MAX);
            EXPECT_EQ(counters().regions, 0u);
            EXPECT_EQ(counters().registered_bytes, 0u);
            EXPECT_EQ(counters().mapped_bytes, 0u);
            cache.reset();
        }
        EXPECT_EQ(nic.live(), 0u);
        EXPECT_EQ(nic.registered, nic.deregistered);
        EXPECT_EQ(count_fds(), fds_);
        EXPECT_EQ(fakes::complaints, complaints_);
    }

protected:
    using counters = fakes::counters;

    void restart()
    {
        cache.reset();
        ucx_ib_dmabuf::process_counters.clear();
        cache = std::make_unique<ucx_ib_dmabuf::rcache>(gpu, settings);
        id    = cache->attach(nic);
    }

    static constexpr auto persistent =
        ucx_ib_dmabuf::rcache::effort::persistent;

    // Bases of allocations of 4 MiB each.
    static uintptr_t at(int i) { return A + i * 4 * MiB; }
    void alloc(int count, bool vmm = false)
    {
        for (int i = 0; i < count; ++i) {
            gpu.alloc(at(i), 4 * MiB, 0, true, vmm);
        }
    }

    // Returns the status of a get. The region is put again at once.
    ucs_status_t get(uintptr_t address, size_t length,
                     ucx_ib_dmabuf::rcache::effort how = ucx_ib_dmabuf::rcache::effort::normal)
    {
        const region *got   = nullptr;
        ucs_status_t status = cache->get(id, address, length, &got, how);
        if (status == UCS_OK) {
            check(got, address, length);
            cache->put(got);
        }
        return status;
    }

    void use(uintptr_t address, size_t length)
    {
        EXPECT_EQ(get(address, length), UCS_OK);
    }

    const region *hold(uintptr_t address, size_t length)
    {
        const region *got = nullptr;
        EXPECT_EQ(cache->get(id, address, length, &got), UCS_OK);
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

    fakes::gpu gpu;
    fakes::nic nic{gpu};
    ucx_ib_dmabuf::rcache_settings settings;
    std::unique_ptr<ucx_ib_dmabuf::rcache> cache;
    ucx_ib_dmabuf::rcache::nic_id id = 0;
    const region *out                = nullptr;

private:
    // As process_state does.
    static void forget_parent()
    {
        if (*forking != nullptr) {
            (*forking)->forget_parent();
            ucx_ib_dmabuf::process_counters.clear();
        }
    }
    inline static std::unique_ptr<ucx_ib_dmabuf::rcache> *forking;

    const int fds_;
    const uint64_t complaints_;
};
