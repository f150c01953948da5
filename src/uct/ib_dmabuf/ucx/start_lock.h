// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <unistd.h>

namespace ucx_ib_dmabuf {

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
    bool try_lock() noexcept
    {
        int none = 0;
        return holder_.compare_exchange_strong(none, getpid());
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
