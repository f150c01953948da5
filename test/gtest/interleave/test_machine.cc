// SPDX-License-Identifier: BSD-3-Clause
#include "explore.h"
#include "steps.h"
#include <gtest/gtest.h>
#include <set>

// What the machine does and does not do: the litmus tests of x86, and of the
// pair of fences.
namespace {

using namespace interleave;
using ucx_ib_dmabuf::atomic;
using ucx_ib_dmabuf::mutex;
namespace steps = ucx_ib_dmabuf::steps;

constexpr auto release = std::memory_order_release;
constexpr auto acquire = std::memory_order_acquire;

struct two_words : scenario {
    atomic<int> x, y;
    int a = -1, b = -1;

    // The values that were read must not be these.
    int bad_a = 0, bad_b = 0;
    void finish() override
    {
        if (a == bad_a && b == bad_b) {
            the_machine.fail("bad");
        }
    }

    void add(const std::function<void()> &body)
    {
        threads.emplace_back([body] {
            the_machine.start();
            body();
        });
    }
};

outcome run(const std::function<void(two_words *)> &make)
{
    return explore(
        [&] {
            auto result = std::make_unique<two_words>();
            make(result.get());
            return result;
        },
        schedule(2));
}

// Both write, then read what the other one writes.
outcome store_buffering(void (*fence_a)(), void (*fence_b)())
{
    return run([=](two_words *w) {
        w->add([=] {
            w->x.store(1, release);
            fence_a();
            w->a = w->y.load(acquire);
        });
        w->add([=] {
            w->y.store(1, release);
            fence_b();
            w->b = w->x.load(acquire);
        });
    });
}

void none() {}
void light()
{
    steps::compiler_fence();
}
void full()
{
    steps::full_fence();
}
void heavy()
{
    steps::membarrier(0);
}

TEST(machine_test, stores_are_delayed)
{
    EXPECT_EQ(store_buffering(none, none).violation, "bad");
    EXPECT_EQ(store_buffering(light, light).violation, "bad");
    EXPECT_EQ(store_buffering(full, light).violation, "bad");
    EXPECT_EQ(store_buffering(none, heavy).violation, "bad");
}

TEST(machine_test, fences_in_pairs_order)
{
    EXPECT_EQ(store_buffering(full, full).violation, "");
    EXPECT_EQ(store_buffering(light, heavy).violation, "");
    EXPECT_EQ(store_buffering(heavy, light).violation, "");
}

TEST(machine_test, stores_drain_in_order)
{
    outcome result = run([](two_words *w) {
        w->bad_a = 1;
        w->add([=] {
            w->x.store(1, release);
            w->y.store(1, release);
        });
        w->add([=] {
            w->a = w->y.load(acquire);
            w->b = w->x.load(acquire);
        });
    });
    EXPECT_EQ(result.violation, "");
}

// Every order that there is, and only these.
TEST(machine_test, every_order_is_seen)
{
    for (auto [a, b] : {std::pair{0, 0}, {0, 1}, {1, 1}, {1, 0}}) {
        outcome result = run([a = a, b = b](two_words *w) {
            w->bad_a = a;
            w->bad_b = b;
            w->add([=] { w->x.store(1); });
            w->add([=] {
                w->a = w->x.load(acquire);
                w->b = w->x.load(acquire);
            });
        });
        EXPECT_EQ(result.violation, a == 1 && b == 0 ? "" : "bad");
    }
}

struct counting : scenario {
    mutex lock;
    int value = 0;

    explicit counting(bool locked)
    {
        for (int i = 0; i < 2; ++i) {
            threads.emplace_back([this, locked] {
                the_machine.start();
                std::unique_lock<mutex> held(lock, std::defer_lock);
                if (locked) {
                    held.lock();
                }
                int before = value;
                the_machine.step("between", location::current());
                value = before + 1;
            });
        }
    }
    void finish() override
    {
        if (value != 2) {
            the_machine.fail("lost");
        }
    }
};

TEST(machine_test, a_mutex_excludes)
{
    for (bool locked : {false, true}) {
        auto make = [=] { return std::make_unique<counting>(locked); };
        EXPECT_EQ(explore(make, schedule(2)).violation, locked ? "" : "lost");
        EXPECT_EQ(explore(make, schedule(1, 1000)).violation,
                  locked ? "" : "lost");
    }
}

struct crossed : scenario {
    mutex a, b;

    crossed()
    {
        for (bool first : {false, true}) {
            threads.emplace_back([this, first] {
                the_machine.start();
                std::lock_guard<mutex> outer(first ? a : b);
                std::lock_guard<mutex> inner(first ? b : a);
            });
        }
    }
};

TEST(machine_test, deadlocks_are_seen)
{
    EXPECT_EQ(explore([] { return std::make_unique<crossed>(); }, schedule(0))
                  .violation,
              "");
    EXPECT_EQ(explore([] { return std::make_unique<crossed>(); }, schedule(1))
                  .violation,
              "deadlock");
}

} // namespace
