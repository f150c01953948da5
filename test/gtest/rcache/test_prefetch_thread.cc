// SPDX-License-Identifier: BSD-3-Clause
#include "prefetch.h"
#include <atomic>
#include <chrono>
#include <common/elsewhere.h>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <sys/syscall.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

// The thread that registers new memory ends, or hangs.
namespace {

void until_asleep(const std::atomic<pid_t> &thread)
{
    std::string state;

    while (state.find(") S ") == std::string::npos) {
        std::ifstream stat("/proc/self/task/" + std::to_string(thread) +
                           "/stat");
        std::getline(stat, state);
    }
}

TEST_F(prefetch_test, a_release_waits_for_nothing)
{
    std::promise<void> until;
    begin(until);
    release_surely(A); // returns while the NIC registers
    EXPECT_EQ(nic.live(), 0u);
    until.set_value();
    EXPECT_TRUE(cache->flush()); // waits for the registration and its end
    EXPECT_EQ(nic.live(), 0u);
    EXPECT_EQ(in_vain(), 1u);
}

TEST_F(prefetch_test, ends_of_contexts_processes_and_nics_wait)
{
    const std::function<void()> ends[] = {
        [&] {
            EXPECT_GT(gpu.context.use_count(), 1);
            cache->leave_driver();
            EXPECT_EQ(gpu.context.use_count(), 1);
        },
        [&] {
            cache->detach(0);
            EXPECT_EQ(nic.live(), 0u);
            cache->attach(nic);
        },
        [&] { cache->stop_thread(); }};
    for (const auto &end : ends) {
        std::promise<void> until;
        std::atomic<bool> over{false};
        begin(until);
        std::thread later([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            over = true;
            until.set_value();
        });
        end();
        EXPECT_TRUE(over);
        later.join();
        use(A, 1); // so that it is not in vain
        release_surely(A);
    }
    EXPECT_FALSE(allocate(B));
}

TEST_F(prefetch_test, the_wait_has_a_limit)
{
    settings.patience = std::chrono::milliseconds(100);
    restart();
    std::promise<void> until;
    begin(until);
    const auto started = std::chrono::steady_clock::now();
    for (int i = 0; i < 600; ++i) {
        cache->leave_driver();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - started,
              300 * settings.patience);
    expect_dropped(until);
    release_all();
    teach(10);
    EXPECT_FALSE(allocate(A));
}

// Its operations would wait for a thread that gets no time.
TEST_F(prefetch_test, not_if_the_thread_has_another_priority)
{
    settings.begin_thread = [] { return false; };
    restart();
    for (int i = 0; i < 10; ++i) {
        gpu.alloc(A, 4 * MiB);
        cache->allocate(A, 4 * MiB); // starts the thread
        use(A, 1);
        release_surely(A);
    }
    EXPECT_EQ(ahead(), 0u);
}

// A handler of signals may call exit() while its thread holds the lock.
TEST_F(prefetch_test, an_exit_in_a_handler_returns)
{
    static rcache *used;
    static std::atomic<bool> ended, has_waited;
    used       = cache.get();
    has_waited = false;
    gpu.alloc(A, 4 * MiB);
    signal(SIGALRM, [](int) {
        const auto before = std::chrono::steady_clock::now();
        used->stop_thread();
        has_waited = has_waited || std::chrono::steady_clock::now() - before >
                                       std::chrono::milliseconds(90);
        ended = true;
    });
    while (!has_waited) {
        const itimerval once{{0, 0}, {0, 100}};
        ended = false;
        setitimer(ITIMER_REAL, &once, nullptr);
        while (!ended) {
            use(A, 1);
        }
    }
    signal(SIGALRM, SIG_DFL);
    release_surely(A);
}

// Or while it waits for the cache's thread.
TEST_F(prefetch_test, an_exit_in_a_handler_beside_a_wait_returns)
{
    static rcache *used;
    static std::atomic<bool> began;
    used  = cache.get();
    began = false;
    std::promise<void> until;
    begin(until);
    // What the exit gives up.
    nic.after_dereg = [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    std::thread later([&] {
        while (!began) {
            std::this_thread::yield();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        until.set_value();
    });
    signal(SIGALRM, [](int) {
        began = true;
        used->stop_thread();
    });
    const itimerval once{{0, 0}, {0, 20'000}};
    setitimer(ITIMER_REAL, &once, nullptr);
    use(A, 1);
    later.join();
    signal(SIGALRM, SIG_DFL);
    release_surely(A);
    cache->flush();
    EXPECT_EQ(nic.live(), 0u);
}

// What waits for the thread when a context ends may be of that context. At exit
// the thread must not call the driver.
TEST_F(prefetch_test, what_waits_at_such_an_end_is_not_registered)
{
    for (const auto end : {&rcache::leave_driver, &rcache::stop_thread}) {
        std::promise<void> until;
        begin(until);
        gpu.alloc(B, 4 * MiB);
        EXPECT_TRUE(cache->allocate(B, 4 * MiB));
        std::atomic<pid_t> waiting{0};
        std::thread other([&] {
            waiting = static_cast<pid_t>(syscall(SYS_gettid));
            ((*cache).*end)();
        });
        until_asleep(waiting);
        until.set_value();
        other.join();
        cache->flush();
        EXPECT_FALSE(has_entry(B));
        EXPECT_EQ(has_entry(A), end == &rcache::leave_driver);
        release_all();
    }
}

TEST_F(prefetch_test, a_child_of_fork_learns_anew)
{
    std::promise<void> until;
    begin(until);
    EXPECT_TRUE(in_child([&] {
        const nic_id id = cache->attach(nics[1]);
        cache->release(A, 4 * MiB);
        cache->leave_driver(); // waits for no thread of the parent
        return !cache->allocate(B, 4 * MiB) && id > 0;
    }));
    until.set_value();
    cache->flush();
}

} // namespace
