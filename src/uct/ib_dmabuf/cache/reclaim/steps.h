// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_RECLAIM_STEPS_H_
#define UCX_IB_DMABUF_CACHE_RECLAIM_STEPS_H_

// What the cache does that another thread can see. Here these are names for
// what the library and the compiler have. In the build for the tests of
// interleavings (test/gtest/interleave) each is a step of a scheduler that runs
// the threads in every order.
#ifdef UCX_IB_DMABUF_EXPLORE
#include <interleave/steps.h>
#else

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// A variable that each thread has for itself. In the static TLS block, also
// where the plug-in is loaded late.
#define UCX_IB_DMABUF_PER_THREAD(_type)                                        \
    __thread __attribute__((tls_model("initial-exec"))) _type

// Whether the test leaves out, or has early, what stands there, to see that
// this is noticed.
#define LEFT_OUT(_what) false

namespace ucx_ib_dmabuf {

template <typename T>
using atomic = std::atomic<T>;
using std::condition_variable;
using std::mutex;

namespace steps {

// What is set once, but in tests is both.
template <typename T>
using constant = const T;

// Of two sizes, the one for use; the other one is for tests.
template <typename T>
constexpr T size(T normal, T)
{
    return normal;
}

inline void compiler_fence()
{
    std::atomic_signal_fence(std::memory_order_seq_cst);
}
inline void full_fence()
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

// Zeroed pages, which cost nothing until they are touched; null: no memory.
inline void *map_zeroed(size_t size)
{
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return (memory == MAP_FAILED) ? nullptr : memory;
}
inline void unmap(void *memory, size_t size)
{
    munmap(memory, size);
}

// A pointer that each thread has for itself, and what to do with it when the
// thread ends. Not every key that is wanted can be had.
class thread_key {
public:
    explicit thread_key(void (*at_end)(void *))
        : works_(pthread_key_create(&key_, at_end) == 0)
    {
    }
    ~thread_key()
    {
        if (works_) {
            pthread_key_delete(key_);
        }
    }
    thread_key(const thread_key &)            = delete;
    thread_key &operator=(const thread_key &) = delete;

    void *get() const { return works_ ? pthread_getspecific(key_) : nullptr; }
    bool set(void *value) const
    {
        return works_ && pthread_setspecific(key_, value) == 0;
    }

private:
    pthread_key_t key_;
    bool works_;
};

// A thread in which no signal is handled.
class thread {
public:
    // False if there can be none.
    bool start(void *(*run)(void *), void *with)
    {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        bool started = pthread_create(&id_, nullptr, run, with) == 0;
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return started;
    }
    void join() { pthread_join(id_, nullptr); }

private:
    pthread_t id_;
};

// Waits for something that another thread does within some instructions, unless
// it is not running just now.
template <typename Condition>
void until(Condition true_now)
{
    for (unsigned tries = 0; !true_now(); ++tries) {
        if (tries > 1000) {
            usleep(10); // a thread of lower priority needs the CPU
        } else if (tries > 50) {
            sched_yield();
        }
    }
}

// For the tests only: a section in which the thread may do as much with data
// that is not atomic, until it enters another; and that it does so.
enum class access { none, reads, changes };
inline void enters(access) {}
inline void touches(access) {}

} // namespace steps

} // namespace ucx_ib_dmabuf

#endif

#endif
