// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_MEMH_H_
#define UCX_IB_DMABUF_MD_MEMH_H_

#include "../cache/cache.h"
#include "../host/keys.h"
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace ucx_ib_dmabuf {

struct registration;

// What UCX gets as a memory handle: what uct_ib's transports read the keys
// from, and ours behind it. What providers have there is read by operations
// only that never see our handles. One for each mem_reg, as each may be
// invalidated by itself.
class memh : public handle_keys {
public:
    using handle_keys::handle_keys;
    // Each thread keeps some memory, of what it gave back, for the next ones.
    // Any thread may delete.
    static void *operator new(size_t size, const std::nothrow_t &) noexcept
    {
        return has_idle() ? idle.pop() : malloc(size);
    }
    static bool has_idle() { return idle.first != nullptr; }
    static void *take_idle() { return idle.pop(); }
    static bool keeps_next() { return idle.room != 0; }
    static void operator delete(void *memory) noexcept
    {
        if (keeps_next() || make_room()) {
            idle.push(memory);
        } else {
            free(memory);
        }
    }

    uct_mem_h to_uct() { return static_cast<handle_keys *>(this); }

    // What was asked for, and the cache's region around it.
    uintptr_t address  = 0;
    size_t length      = 0;
    const region *used = nullptr;

    // Of that range alone, once a remote key was packed that may be
    // invalidated while others use the region.
    std::atomic<registration *> own{nullptr};

private:
    // malloc() and free() would cost as much as the rest of a hit.
    struct idle_memory {
        struct node {
            node *next;
        };
        node *first;
        unsigned room; // for how many more
        bool begun;    // somebody will free it

        void *pop()
        {
            ++room;
            return std::exchange(first, first->next);
        }
        void push(void *memory)
        {
            --room;
            first = new (memory) node{first};
        }
    };
    // In the static TLS block, as the linker's call to find it costs much, too.
    static constinit thread_local idle_memory idle
        [[gnu::tls_model("initial-exec")]];

    static bool make_room() noexcept;
    static void free_idle(void *) noexcept;
};

} // namespace ucx_ib_dmabuf

#endif
