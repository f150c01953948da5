// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_STEPS_H_
#define UCX_IB_DMABUF_CACHE_STEPS_H_

// What the cache does that another thread can see. Here these are names for
// what the library and the compiler have. In the build for the tests of
// interleavings (test/gtest/interleave) each is a step of a scheduler that runs
// the threads in every order.
#ifdef UCX_IB_DMABUF_EXPLORE
#include <interleave/steps.h>
#else

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
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

// In a read section: the thread has found that in the index and may look at
// it. After the section it does not any more.
inline void found(uintptr_t) {}
inline void left() {}
// Nobody looks at it any more; it is used for something new.
inline void reclaimed(const void *) {}
inline void reused(const void *) {}
inline void release(void *memory)
{
    operator delete(memory);
}

} // namespace steps

} // namespace ucx_ib_dmabuf

#endif

#endif
