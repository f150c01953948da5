// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_STEPS_H_
#define TEST_GTEST_INTERLEAVE_STEPS_H_

#include "machine.h"
#include "mutants.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

// What src/uct/ib_dmabuf/cache/reclaim/steps.h has, as steps of the machine.
namespace ucx_ib_dmabuf {

using interleave::the_machine;

// Zeroed memory is a valid one, as of std::atomic.
template <typename T>
class atomic {
public:
    constexpr atomic() = default;
    constexpr atomic(T value) : value_(value) {}
    atomic(const atomic &)            = delete;
    atomic &operator=(const atomic &) = delete;

    T load(std::memory_order       = std::memory_order_seq_cst,
           interleave::location at = interleave::location::current()) const
    {
        return from_bits(the_machine.load(&value_, sizeof(T), at));
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst,
               interleave::location at = interleave::location::current())
    {
        if (order == std::memory_order_seq_cst) {
            the_machine.exclusive("store", at);
            value_ = value;
        } else {
            the_machine.store(&value_, sizeof(T), to_bits(value));
        }
    }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst,
               interleave::location at = interleave::location::current())
    {
        the_machine.exclusive("exchange", at);
        return std::exchange(value_, value);
    }
    operator T() const { return load(); }
    T operator=(T value)
    {
        store(value);
        return value;
    }

private:
    static T from_bits(uint64_t bits)
    {
        T value;
        memcpy(&value, &bits, sizeof(T));
        return value;
    }
    static uint64_t to_bits(T value)
    {
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof(T));
        return bits;
    }

    T value_{};
};

class mutex {
public:
    void lock(interleave::location at = interleave::location::current())
    {
        the_machine.lock(&locked_, at);
    }
    void unlock(interleave::location at = interleave::location::current())
    {
        the_machine.unlock(&locked_, at);
    }

private:
    bool locked_ = false;
};

class condition_variable {
public:
    template <typename Condition>
    void wait(std::unique_lock<mutex> &held, Condition true_now)
    {
        while (!true_now()) {
            const unsigned before = notified_;
            held.unlock();
            the_machine.until([=, this] { return notified_ != before; });
            held.lock();
        }
    }
    void notify_all() { ++notified_; }

private:
    unsigned notified_ = 0;
};

// Of each thread, in this round.
template <typename T>
class per_thread {
public:
    operator T() const
    {
        const one &mine = all_[the_machine.self()];
        return mine.round == the_machine.round() ? mine.value : T{};
    }
    T operator=(T value)
    {
        all_[the_machine.self()] = {value, the_machine.round()};
        return value;
    }

private:
    struct one {
        T value;
        uint64_t round;
    };
    one all_[interleave::max_threads + 1];
};
#define UCX_IB_DMABUF_PER_THREAD(_type) per_thread<_type>

namespace steps {

template <typename T>
using constant = T;

template <typename T>
constexpr T size(T, T small)
{
    return small;
}

inline void
compiler_fence(interleave::location at = interleave::location::current())
{
    the_machine.compiler_fence(at);
}
inline void
full_fence(interleave::location at = interleave::location::current())
{
    the_machine.full_fence(at);
}
inline bool
membarrier(int, interleave::location at = interleave::location::current())
{
    the_machine.membarrier(at);
    return true;
}

// Without the kernel, which would take longer than all else.
inline void *map_zeroed(size_t size)
{
    void *memory = std::aligned_alloc(64, (size + 63) / 64 * 64);
    return (memory == nullptr) ? nullptr : std::memset(memory, 0, size);
}
inline void unmap(void *memory, size_t)
{
    std::free(memory);
}

// A thread of a scenario ends when it calls end_of_thread().
class thread_key {
public:
    explicit thread_key(void (*at_end)(void *)) : at_end_(at_end)
    {
        all.push_back(this);
    }
    ~thread_key() { std::erase(all, this); }
    thread_key(const thread_key &)            = delete;
    thread_key &operator=(const thread_key &) = delete;

    void *get() const { return values_[the_machine.self()]; }
    bool set(void *value) const
    {
        if (refused >> the_machine.self() & 1) {
            return false;
        }
        values_[the_machine.self()] = value;
        return true;
    }

    static void end_of_thread()
    {
        for (thread_key *each : all) {
            if (void *mine =
                    std::exchange(each->values_[the_machine.self()], nullptr)) {
                each->at_end_(mine);
            }
        }
    }

    // To which threads: a bit each.
    static inline unsigned refused = 0;

private:
    static inline std::vector<thread_key *> all;

    void (*const at_end_)(void *);
    mutable void *values_[interleave::max_threads + 1] = {};
};

// It ends with the execution, at the latest.
class thread {
public:
    bool start(void *(*run)(void *), void *with)
    {
        return the_machine.spawn([=] { run(with); });
    }
    void join() {}
};

template <typename Condition>
void until(Condition true_now,
           interleave::location at = interleave::location::current())
{
    the_machine.step("until", at);
    the_machine.until(true_now);
}

using interleave::access;

inline void enters(access section)
{
    the_machine.enters(section);
}
inline void touches(access kind)
{
    the_machine.touches(kind);
}

} // namespace steps

} // namespace ucx_ib_dmabuf

#endif
