// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <pthread.h>

namespace ucx_ib_dmabuf {

// One rule for fork(): a child owns nothing that its parent opened, and waits
// for no thread of its parent. State follows it by one call of at_fork():
// * A fork waits for `lock`, as no thread of the child would unlock it.
// * `in_child` makes the state that of a process that has opened nothing. It
//   runs in the child, with the lock free.
// * `before` notes what the child needs for that. It runs in the thread that
//   forks; threads may fork at once.
// Each may be null. Only the first call registers. Returns 0, or ENOMEM.
template <std::mutex *lock, void (*in_child)() = nullptr,
          void (*before)() = nullptr>
int at_fork() noexcept
{
    struct handlers {
        static void prepare()
        {
            if constexpr (lock != nullptr) {
                lock->lock();
            }
            if constexpr (before != nullptr) {
                before();
            }
        }
        static void parent()
        {
            if constexpr (lock != nullptr) {
                lock->unlock();
            }
        }
        static void child()
        {
            parent();
            if constexpr (in_child != nullptr) {
                in_child();
            }
        }
    };
    static const int result =
        pthread_atfork(handlers::prepare, handlers::parent, handlers::child);
    return result;
}

} // namespace ucx_ib_dmabuf
