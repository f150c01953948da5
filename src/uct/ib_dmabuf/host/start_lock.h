// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <unistd.h>

namespace ucx_ib_dmabuf {

// A lock for what is done once and calls the driver and the loader. Another
// thread may fork meanwhile, and libcuda's own locks are held in the child:
// that one cannot have this lock, either, nor does it wait for it.
class start_lock {
public:
    // Waits for other threads. False in such a child.
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
    std::atomic<int> holder_{0}; // a process, or 0
};

} // namespace ucx_ib_dmabuf
