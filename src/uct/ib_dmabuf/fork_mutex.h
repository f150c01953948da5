// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <pthread.h>

namespace ucx_ib_dmabuf {

// From now on a fork waits for the mutex: in the child, no thread would unlock
// it.
template <std::mutex &mutex>
void keep_from_forks()
{
    [[maybe_unused]] static const int once = pthread_atfork(
        [] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
}

} // namespace ucx_ib_dmabuf
