// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fixture.h"
#include <future>
#include <memory>
#include <thread>

inline uint64_t ahead()
{
    return fakes::counters::of("prefetches");
}
inline uint64_t in_vain()
{
    return fakes::counters::of("prefetches_unused");
}

class prefetch_test : public cache_test {
protected:
    // Allocates. Waits until what is expected is registered, or was tried.
    bool allocate(uintptr_t base, size_t size = 4 * MiB, int device = 0)
    {
        gpu.alloc(base, size, device);
        const bool expected = cache->allocate(base, size);
        while (expected && !has_entry(base) && !nic.reg_faults.hit()) {
            std::this_thread::yield();
        }
        cache->flush(); // until it is published
        return expected;
    }
    bool has_entry(uintptr_t base)
    {
        bool found = false;
        for (const fakes::nic &each : nics) {
            each.each([&](const fakes::registration &one) {
                found |= one.address <= base && base < one.address + one.length;
            });
        }
        return found;
    }
    void release_all()
    {
        cache->release(0, SIZE_MAX);
        for (const uintptr_t base : {A, B, C}) {
            if (gpu.allocated(base)) {
                gpu.free(base);
            }
        }
    }
    // Uses memory. Returns whether it was not registered yet.
    bool first_use(uintptr_t base, size_t size = 1)
    {
        const counters before;
        use(base, size);
        return counters().registrations > before.registrations;
    }
    // Allocates, uses and frees, so many times.
    void teach(int uses = 2, size_t size = 4 * MiB)
    {
        for (int i = 0; i < uses; ++i) {
            allocate(C, size);
            use(C, size);
            release_surely(C);
        }
    }
    // Begins to register A, up to a call of the NIC, which waits.
    void begin(std::promise<void> &until)
    {
        teach();
        auto begun     = std::make_shared<std::promise<void>>();
        nic.during_reg = [begun, &until] {
            begun->set_value();
            until.get_future().wait();
        };
        gpu.alloc(A, 4 * MiB);
        ASSERT_TRUE(cache->allocate(A, 4 * MiB));
        begun->get_future().wait();
    }
    // Ends that call. What it made is deregistered at once.
    void expect_dropped(std::promise<void> &until)
    {
        const uint64_t deregistered = nic.deregistered;
        until.set_value();
        while (nic.deregistered == deregistered) {
            std::this_thread::yield();
        }
        EXPECT_EQ(nic.live(), 0u);
        EXPECT_EQ(in_vain(), 0u);
    }
};
