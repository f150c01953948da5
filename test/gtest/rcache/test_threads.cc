// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <array>
#include <chrono>
#include <common/elsewhere.h>
#include <random>
#include <thread>
#include <utility>

// Threads get and put regions of memory that other threads release and replace
// at the same time. ThreadSanitizer checks this, too.
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int rounds = 10000;
#else
constexpr int rounds = 100000;
#endif
constexpr unsigned thread_count = 8;

// An address where memory is allocated and released.
struct place {
    uintptr_t base;
    size_t size;
    std::mutex owner;              // held during a replacement
    std::atomic<uint64_t> gone{0}; // identities up to this were released
    bool there = false;
};

class threads_test : public cache_test {
protected:
    threads_test()
    {
        for (size_t i = 0; i < places.size(); ++i) {
            // Some places share a granule, others span several.
            places[i].base = i < 12 ? A + i * 64 * KiB : A + i * 8 * MiB;
            places[i].size = i < 12 ? 64 * KiB : 6 * MiB;
        }
    }

    // Frees in the driver first, then sends the event: from there on no get may
    // return the old memory.
    void replace(place *where)
    {
        std::lock_guard<std::mutex> locked(where->owner);
        if (where->there) {
            uint64_t old = gpu.id_at(where->base);
            gpu.free(where->base);
            cache->invalidate(where->base, where->size);
            where->gone = old;
        }
        where->there = !where->there;
        if (where->there) {
            gpu.alloc(where->base, where->size);
        }
    }

    void check_use(place *where, size_t offset, nic_id with)
    {
        uint64_t gone     = where->gone;
        const region *got = nullptr;
        auto status       = cache->get(with, where->base + offset, 100, &got);
        if (status != UCS_OK) {
            return;
        }
        auto *what = static_cast<fakes::registration *>(got->handle);
        if (!what->live || what->id_at(where->base + offset) <= gone) {
            ++bad;
        }
        std::lock_guard<std::mutex> locked(exchange_lock);
        // Often another thread puts the region.
        std::swap(got, exchange[(where - places.data()) % exchange.size()]);
        if (got != nullptr) {
            what = static_cast<fakes::registration *>(got->handle);
            bad += !what->live;
            cache->put(got);
        }
    }

    void work(unsigned seed)
    {
        std::minstd_rand random(seed);
        for (int i = 0; i < rounds; ++i) {
            place *where = &places[random() % places.size()];
            switch (random() % 16) {
            case 0:
                replace(where);
                break;
            case 1:
                cache->invalidate(where->base, 1);
                break;
            default:
                check_use(where, random() % (where->size - 100), random() % 2);
            }
        }
    }

    void run()
    {
        unsigned seed = std::random_device()();
        printf("seed %u\n", seed);
        for (place &each : places) {
            replace(&each);
        }
        in_threads(thread_count, [&](unsigned i) { work(seed + i); });
        for (const region *&each : exchange) {
            cache->put(each);
            each = nullptr;
        }
        EXPECT_EQ(bad, 0u);
        cache->invalidate(0, SIZE_MAX);
        EXPECT_EQ(nic.live(), 0u);
        EXPECT_EQ(nics[1].live(), 0u);
        EXPECT_EQ(counters().regions, 0u);
    }

    std::array<place, 20> places;
    std::mutex exchange_lock;
    std::array<const region *, 8> exchange{};
    std::atomic<unsigned> bad{0};
};

TEST_F(threads_test, no_get_returns_released_memory)
{
    settings.max_bytes   = [](int) { return 20 * MiB; };
    settings.max_regions = 10;
    restart(2);
    run();
    EXPECT_LE(gpu.max_mapped(0), 20 * MiB);
    settings.max_bytes   = [](int) { return SIZE_MAX; };
    settings.max_regions = SIZE_MAX;
    for (const bool checks : {false, true}) {
        settings.check_identity = checks;
        restart(2);
        run();
    }
}

// A second thread requests memory that the first one is registering.
TEST_F(threads_test, the_second_waits_for_the_first)
{
    gpu.alloc(A, MiB);
    std::thread second;
    nic.during_reg = [&] {
        second = std::thread([&] { use(A, 1); });
        // Gives a fault time to show; a correct cache does not need it.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    };
    use(A, MiB);
    second.join();
    EXPECT_EQ(nic.registered, 1u);
    EXPECT_EQ(counters().exports, 1u);
}

TEST_F(threads_test, nics_come_while_others_work)
{
    gpu.alloc(A + 512 * MiB, MiB);
    std::atomic<bool> over{false};
    std::thread other([&] {
        fakes::nic late(gpu);
        while (!over) {
            cache->detach(cache->attach(late));
        }
    });
    for (int i = 0; i < 1000; ++i) {
        use(A + 512 * MiB, 1);
        cache->invalidate(A + 512 * MiB, MiB);
    }
    over = true;
    other.join();
}

} // namespace
