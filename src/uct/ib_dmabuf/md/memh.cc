// SPDX-License-Identifier: BSD-3-Clause
#include "memh.h"
#include <pthread.h>

namespace ucx_ib_dmabuf {

constexpr unsigned most_idle = 64;

constinit thread_local memh::idle_memory memh::idle{};

void memh::free_idle(void *) noexcept
{
    while (idle.first != nullptr) {
        free(idle.pop());
    }
    idle = {};
}

// Whether there is room, after the first time in a thread: none is kept that
// nobody would free. C++'s destructors at a thread's end would not see what
// later ones give back; a key's runs again for these. Never deleted: other
// threads may outlast main().
bool memh::make_room() noexcept
{
    static pthread_key_t key;
    static const bool works = (pthread_key_create(&key, free_idle) == 0);

    // Any value but null.
    if (!idle.begun && works && (pthread_setspecific(key, &key) == 0)) {
        idle.begun = true;
        idle.room  = most_idle;
    }
    return keeps_next();
}

} // namespace ucx_ib_dmabuf
