// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <atomic>
#include <cerrno>
#include <chrono>
#include <dlfcn.h>
#include <functional>
#include <future>
#include <pthread.h>
#include <thread>
#include <utility>

// A release waits neither for a registration nor for a large deregistration.
// The cache's thread starts such a deregistration at once.
namespace {

std::atomic<bool> no_threads{false};
std::function<void()> while_one_is_made; // runs as the next thread is created

// Records the thread that deregisters, and lets it wait for the test.
class slow_nic : public fakes::nic {
public:
    using fakes::nic::nic;
    void dereg(void *handle) override
    {
        by = std::this_thread::get_id();
        if (until.valid()) {
            until.wait();
        }
        fakes::nic::dereg(handle);
    }
    std::atomic<std::thread::id> by;
    std::shared_future<void> until;
};

class deferred_test : public cache_test {
protected:
    deferred_test()
    {
        settings.deferred_size = 4 * MiB;
        restart_slow();
        gpu.alloc(A, 4 * MiB);
        gpu.alloc(B, 3 * MiB);
    }
    ~deferred_test() override
    {
        release(A);
        release(B);
        cache->detach(0);
    }
    void restart_slow()
    {
        restart(0);
        cache->attach(slow);
    }
    // From here on deregistration waits until the promise is fulfilled.
    std::promise<void> block()
    {
        std::promise<void> over;
        slow.until = over.get_future().share();
        return over;
    }
    slow_nic slow{gpu};
};

TEST_F(deferred_test, a_large_release_does_not_wait)
{
    use(A, 1);
    auto over = block();
    cache->invalidate(A, 4 * MiB);
    EXPECT_EQ(slow.live(), 1u);
    EXPECT_EQ(counters().regions, 1u); // until deregistration ends
    over.set_value();
    EXPECT_TRUE(cache->flush());
    EXPECT_EQ(slow.live(), 0u);
    EXPECT_EQ(counters().regions, 0u);
    EXPECT_NE(slow.by, std::this_thread::get_id());
    EXPECT_FALSE(cache->flush());
}

TEST_F(deferred_test, flush_reports_what_ended_just_before)
{
    use(A, 1);
    cache->invalidate(A, 4 * MiB);
    while (counters().regions > 0) {
        std::this_thread::yield();
    }
    EXPECT_TRUE(cache->flush());
    EXPECT_FALSE(cache->flush());
}

// UCX gets its notification in that thread.
TEST_F(deferred_test, the_last_user_does_it)
{
    const region *held = hold(A, 1);
    cache->invalidate(A, 4 * MiB);
    cache->flush(); // does not wait for regions in use
    EXPECT_EQ(slow.live(), 1u);
    EXPECT_EQ(counters().invalidations, 1u);
    cache->put(held);
    EXPECT_EQ(slow.live(), 0u);
    EXPECT_EQ(slow.by, std::this_thread::get_id());
}

// flush() waits only for regions unlinked before. Here each deregistration ends
// when the next one has begun.
TEST_F(deferred_test, flush_ends_while_others_release)
{
    constexpr unsigned most = 1'000'000; // takes many seconds
    std::atomic<unsigned> begun{0};
    std::atomic<bool> over{false};
    fakes::nic relay(gpu);
    relay.each_call = [&](fakes::call what, uintptr_t, size_t) {
        if (what == fakes::call::dereg) {
            const unsigned mine = ++begun;
            while (begun == mine && !over && mine < most) {
                std::this_thread::yield();
            }
        }
    };
    auto with     = cache->attach(relay);
    auto releases = [&](uintptr_t at) {
        while (!over && begun < most) {
            use(at, 1, with);
            cache->invalidate(at, 1);
        }
    };
    gpu.alloc(A + 64 * MiB, MiB);
    gpu.alloc(A + 128 * MiB, MiB);
    std::thread first(releases, A + 64 * MiB);
    std::thread second(releases, A + 128 * MiB);
    while (begun < 2) {
        std::this_thread::yield();
    }
    cache->flush();
    EXPECT_LT(begun, most);
    over = true;
    first.join();
    second.join();
    cache->detach(with);
}

// A registrar may call code that flushes, or registers, during a
// deregistration. That code does not wait for this deregistration.
TEST_F(deferred_test, a_registrar_waits_for_nothing)
{
    gpu.alloc(C, MiB);
    fakes::nic telling(gpu, 4 * MiB);
    auto with         = cache->attach(telling);
    const region *got = hold(A, 1, with);
    cache->invalidate(A, 4 * MiB);
    std::thread other;
    telling.each_call = [&](fakes::call what, uintptr_t, size_t) {
        if (what != fakes::call::dereg || other.joinable()) {
            return;
        }
        cache->flush();
        // This thread waits for the room.
        uint64_t calls = telling.reg_faults.calls();
        other          = std::thread([&] { use(C, 1, with); });
        while (telling.reg_faults.calls() == calls) {
            std::this_thread::yield();
        }
        EXPECT_EQ(get(C, 1, normal, with), UCS_ERR_NO_MEMORY);
    };
    cache->put(got);
    other.join();
    telling.each_call = nullptr;
    cache->detach(with);
    release(C);
}

// The pending deregistration makes the room, of the NIC or of the budget.
TEST_F(deferred_test, room_that_is_being_made_is_waited_for)
{
    for (const bool limited : {false, true}) {
        settings.max_bytes = [=](int) { return limited ? 4 * MiB : SIZE_MAX; };
        restart_slow();
        slow.limit(limited ? SIZE_MAX : 4 * MiB);
        use(A, 1);
        auto over = block();
        cache->invalidate(A, 4 * MiB);
        std::thread later([&] { over.set_value(); });
        use(B, 1);
        later.join();
        EXPECT_EQ(counters().evictions, 0u);
        cache->invalidate(B, 3 * MiB);
    }
}

// The thread frees room after the NIC has refused, before that is handled.
TEST_F(deferred_test, room_that_was_made_meanwhile_is_used)
{
    slow.limit(4 * MiB);
    use(A, 1);
    auto over = block();
    cache->invalidate(A, 4 * MiB);
    slow.after_refusal = [&] {
        over.set_value();
        while (counters().regions > 1) { // B's
            std::this_thread::yield();
        }
    };
    use(B, 3 * MiB);
}

// Nor does a release wait while another thread creates the cache's thread,
// which fails in the end. The lock is free.
TEST_F(deferred_test, without_a_thread_it_is_done_all_the_same)
{
    gpu.alloc(C, 4 * MiB);
    use(A, 1);
    use(C, 1);
    while_one_is_made = [&] {
        std::thread([&] { cache->invalidate(C, 4 * MiB); }).join();
        EXPECT_EQ(slow.live(), 1u);
        no_threads = true;
    };
    cache->invalidate(A, 4 * MiB);
    EXPECT_EQ(slow.live(), 0u);
    EXPECT_EQ(slow.by, std::this_thread::get_id());
    no_threads = false;
    release(C);
}

// The thread deregisters, or is about to.
TEST_F(deferred_test, none_is_under_way_when_the_process_ends)
{
    for (const bool is_about_to : {false, true}) {
        std::promise<void> begun, over;
        const auto until = slow.until = over.get_future().share();
        settings.begin_thread         = [&begun, until, is_about_to] {
            begun.set_value();
            if (is_about_to) {
                until.wait();
            }
            return true;
        };
        restart_slow();
        use(A, 1);
        slow.by = std::thread::id();
        cache->invalidate(A, 4 * MiB);
        begun.get_future().wait();
        while (!is_about_to && slow.by == std::thread::id()) {
            std::this_thread::yield();
        }
        std::thread later([&over] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            over.set_value();
        });
        cache->stop_thread();
        EXPECT_EQ(slow.live(), 0u);
        later.join();

        use(A, 1);
        cache->invalidate(A, 4 * MiB);
        EXPECT_EQ(slow.live(), 0u);
        EXPECT_EQ(slow.by, std::this_thread::get_id());
    }
}

TEST_F(deferred_test, the_end_of_the_process_waits_with_a_limit)
{
    settings.patience = std::chrono::milliseconds(10);
    restart_slow();
    use(A, 1);
    auto over = block();
    cache->invalidate(A, 4 * MiB);
    cache->stop_thread(); // returns
    EXPECT_EQ(slow.live(), 1u);
    over.set_value();
}

TEST_F(deferred_test, there_is_no_thread_if_the_end_is_not_watched)
{
    settings.watch_exit = [] { return false; };
    restart_slow();
    use(A, 1);
    cache->invalidate(A, 4 * MiB);
    EXPECT_EQ(slow.live(), 0u);
    EXPECT_EQ(slow.by, std::this_thread::get_id());
}

// It waits neither for its own memory's registration nor for another's.
TEST_F(deferred_test, a_release_never_waits_for_a_registration)
{
    use(B, 1);
    slow.during_reg = [&] {
        std::thread([&] { cache->invalidate(B, 3 * MiB); }).join();
        EXPECT_EQ(slow.live(), 0u);
        std::thread([&] { cache->invalidate(A, 4 * MiB); }).join();
    };
    use(A, 1);
    EXPECT_EQ(slow.registered, 3u); // A is registered again
}

} // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *how,
                              void *(*run)(void *), void *with) noexcept
{
    static auto *real = reinterpret_cast<decltype(&pthread_create)>(
        dlsym(RTLD_NEXT, "pthread_create"));
    if (auto then = std::exchange(while_one_is_made, nullptr)) {
        then();
    }
    return no_threads ? EAGAIN : real(thread, how, run, with);
}
