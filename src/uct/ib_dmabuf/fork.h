// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <pthread.h>
#include <type_traits>

namespace ucx_ib_dmabuf {

// Not a comparison with null, which UBSan does not take for a constant.
template <auto value>
constexpr bool is_given = !std::is_null_pointer_v<decltype(value)>;

// One rule for fork(): a child owns nothing that its parent opened, and waits
// for no thread of its parent. State follows it by one call of at_fork():
// * A fork waits for `lock`, as no thread of the child would unlock it.
// * `in_child` makes the state that of a process that has opened nothing. It
//   runs in the child, with the lock free.
// * `before` notes what the child needs for that. It runs in the thread that
//   forks; threads may fork at once.
// Each may be null. Only the first call registers. Returns 0, or ENOMEM.
template <auto lock, auto in_child = nullptr, auto before = nullptr>
int at_fork() noexcept
{
    struct handlers {
        static void prepare()
        {
            if constexpr (is_given<lock>) {
                lock->lock();
            }
            if constexpr (is_given<before>) {
                before();
            }
        }
        static void parent()
        {
            if constexpr (is_given<lock>) {
                lock->unlock();
            }
        }
        static void child()
        {
            parent();
            if constexpr (is_given<in_child>) {
                in_child();
            }
        }
    };
    static const int result =
        pthread_atfork(handlers::prepare, handlers::parent, handlers::child);
    return result;
}

} // namespace ucx_ib_dmabuf
