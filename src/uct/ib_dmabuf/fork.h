// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <pthread.h>
#include <type_traits>
#include <unistd.h>

namespace ucx_ib_dmabuf {

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
    // Not a comparison with null, which UBSan does not take for a constant.
    constexpr bool locks          = !std::is_null_pointer_v<decltype(lock)>;
    constexpr bool resets         = !std::is_null_pointer_v<decltype(in_child)>;
    constexpr bool prepares       = !std::is_null_pointer_v<decltype(before)>;
    static constexpr auto prepare = [] {
        if constexpr (locks) {
            lock->lock();
        }
        if constexpr (prepares) {
            before();
        }
    };
    static constexpr auto parent = [] {
        if constexpr (locks) {
            lock->unlock();
        }
    };
    static constexpr auto child = [] {
        parent();
        if constexpr (resets) {
            in_child();
        }
    };
    static const int result = pthread_atfork(prepare, parent, child);
    return result;
}

// A lock for one-time initialization that calls the driver and the loader. If
// another thread forks meanwhile, libcuda's locks stay locked in the child. The
// child neither acquires this lock nor waits for it.
class start_lock {
public:
    // Waits for other threads. Returns false in such a child.
    bool acquire() noexcept
    {
        const int self = getpid();
        int holder     = 0;
        while (!holder_.compare_exchange_strong(holder, self)) {
            if (holder != self) {
                return false;
            }
            holder_.wait(holder);
            holder = 0;
        }
        return true;
    }
    void unlock() noexcept
    {
        holder_.store(0);
        holder_.notify_all();
    }

private:
    std::atomic<int> holder_{0}; // the holder's process id, or 0
};

} // namespace ucx_ib_dmabuf
