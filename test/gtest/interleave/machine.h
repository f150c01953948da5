// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_MACHINE_H_
#define TEST_GTEST_INTERLEAVE_MACHINE_H_

#include "schedule.h"
#include <array>
#include <csetjmp>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <ucontext.h>

// A machine with total store order on which a schedule decides what happens
// next. Its threads run one at a time, each on its own stack, and go on or
// stop at steps: what another thread can see, or can be seen in.
//
// A store waits in its thread's buffer, in order, until it drains: when the
// schedule says so, or at a fence, a read-modify-write or a mutex of that
// thread, or at membarrier in any. What stands in the program before a later
// load, but without a fence for the compiler in between, may be executed after
// it: membarrier does not drain such a store.
namespace interleave {

constexpr unsigned max_threads = 4;
using location                 = std::source_location;

// To data that is not atomic.
enum class access { none, reads, changes };

class machine {
public:
    machine();

    // Runs the threads, each up to start() and then all of them in the order
    // of the schedule; until all have ended, or one has failed.
    void run(const std::vector<std::function<void()>> &bodies, schedule *order);
    // Called by a thread once: from here on they run in any order.
    void start();
    // By a thread: another one, that need not end. False if there are too many.
    bool spawn(const std::function<void()> &body);
    // A violation: ends the execution.
    void fail(const std::string &what);
    bool failed() const { return !violation_.empty(); }
    // What it was, and the steps that led there.
    const std::string &violation() const { return violation_; }
    std::string trace() const;

    // Index of the thread that runs; max_threads outside run().
    unsigned self() const { return self_; }
    // How often run() was called.
    uint64_t round() const { return round_; }

    // Steps. Outside run() they just happen.
    void step(const char *what, location at);
    uint64_t load(const void *where, unsigned size, location at);
    void store(void *where, unsigned size, uint64_t bits);
    // Before a read-modify-write, or a store with a fence.
    void exclusive(const char *what, location at);
    void compiler_fence(location at);
    void full_fence(location at);
    void membarrier(location at);
    void lock(bool *locked, location at);
    void unlock(bool *locked, location at);
    // The thread goes on once that holds, which makes no steps.
    void until(const std::function<bool()> &holds);

    // See steps.h. A section that others exclude is a violation, and so is
    // access outside of a section, or without a mutex.
    void enters(access section);
    void touches(access kind);

private:
    struct pending {
        void *where;
        uint64_t bits;
        unsigned size;
        bool ordered; // comes before what follows in the program
    };
    enum class state { at_start, ready, blocked, ended };
    struct thread {
        ucontext_t context; // where it begins
        bool begun;
        jmp_buf place; // where it goes on then
        std::unique_ptr<char[]> stack;
        std::function<void()> body;
        bool must_end;
        state is;
        const std::function<bool()> *awaited;
        access section;
        unsigned mutexes; // held
        std::vector<pending> buffer;
    };
    struct event {
        unsigned thread;
        const char *what;
        location at;
    };

    static void enter();
    void begin(thread *t, const std::function<void()> &body);
    thread &me() { return threads_[self_]; }
    bool scheduled() const { return self_ < count_ && exploring_; }
    bool can_run(unsigned i);
    bool any(state is) const;
    void drain(thread &t, size_t count);
    void drain(thread &t) { drain(t, t.buffer.size()); }
    void move(unsigned to);
    // The current thread cannot go on.
    void yield();

    std::array<thread, max_threads> threads_;
    ucontext_t outside_;
    unsigned count_ = 0, self_ = max_threads;
    bool exploring_  = false;
    schedule *order_ = nullptr;
    uint64_t round_  = 0;
    std::string violation_;
    std::vector<event> events_;
    // A thread, and how many stores drain before it goes on.
    std::vector<std::pair<unsigned, size_t>> ways_;
};

// The one there is.
extern machine the_machine;

} // namespace interleave

#endif
