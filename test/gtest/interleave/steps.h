// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_STEPS_H_
#define TEST_GTEST_INTERLEAVE_STEPS_H_

#include "machine.h"
#include "mutants.h"
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

// What src/uct/ib_dmabuf/cache/steps.h has, as steps of the machine.
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
    T fetch_or(T mask,
               interleave::location at = interleave::location::current())
    {
        the_machine.exclusive("or", at);
        return std::exchange(value_, value_ | mask);
    }
    T fetch_and(T mask,
                interleave::location at = interleave::location::current())
    {
        the_machine.exclusive("and", at);
        return std::exchange(value_, value_ & mask);
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
            held.unlock();
            the_machine.wait(this);
            held.lock();
        }
    }
    void notify_all() { the_machine.notify(this); }
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

inline void found(uintptr_t what)
{
    the_machine.found(what);
}
inline void left()
{
    the_machine.left();
}
inline void reclaimed(const void *what)
{
    the_machine.reclaimed(what);
}
inline void reused(const void *what)
{
    the_machine.reused(what);
}
inline void release(void *memory)
{
    the_machine.release(memory);
}

} // namespace steps

} // namespace ucx_ib_dmabuf

#endif
