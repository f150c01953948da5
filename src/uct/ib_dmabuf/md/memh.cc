// SPDX-License-Identifier: BSD-3-Clause
#include "memh.h"
#include <cstdlib>
#include <new>
#include <pthread.h>

namespace ucx_ib_dmabuf {
namespace {

// What this thread keeps to use again: malloc() and free() would cost as much
// as the rest of a hit. In the static TLS block, as the linker's call to find
// it costs much, too.
struct idle_memory {
    idle_memory *next;
};
constexpr unsigned most_idle = 64;

[[gnu::tls_model("initial-exec")]] thread_local idle_memory *idle;
[[gnu::tls_model("initial-exec")]] thread_local unsigned idle_count;
[[gnu::tls_model("initial-exec")]] thread_local bool freed_at_end;

void free_idle(void *)
{
    freed_at_end = false;
    while (idle != nullptr) {
        void *freed = idle;
        idle        = idle->next;
        free(freed);
    }
    idle_count = 0;
}

// C++'s destructors at a thread's end would not see what later ones give back;
// a key's runs again for these. Never deleted: other threads may outlast
// main().
[[gnu::noinline]] bool free_at_end()
{
    static pthread_key_t key;
    static const bool works = (pthread_key_create(&key, free_idle) == 0);

    // Any value but null.
    freed_at_end = works && (pthread_setspecific(key, &key) == 0);
    return freed_at_end;
}

} // namespace

void *memh::operator new(size_t size, const std::nothrow_t &) noexcept
{
    idle_memory *found = idle;
    if (found == nullptr) {
        return malloc(size);
    }
    idle = found->next;
    --idle_count;
    return found;
}

void memh::operator delete(void *memory) noexcept
{
    if ((idle_count == most_idle) || (!freed_at_end && !free_at_end())) {
        free(memory);
        return;
    }
    idle = new (memory) idle_memory{idle};
    ++idle_count;
}

} // namespace ucx_ib_dmabuf
