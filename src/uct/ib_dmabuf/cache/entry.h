// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_ENTRY_H_
#define UCX_IB_DMABUF_CACHE_ENTRY_H_

#include "cache.h"
#include "span.h"

namespace ucx_ib_dmabuf {

// A region as the cache knows it. In the index until it leaves; deregistered
// by whoever finds it unused after that.
struct entry : region {
    span bytes;            // what it serves: the part of its allocation
    uint64_t identity = 0; // of the allocation
    cache::nic_id nic = 0;
    int device        = -1;
    int uses          = 0;
    bool leaving      = false; // out of the index, for good
    bool claimed      = false; // somebody deregisters it, or has done so
    bool recent       = false; // used since eviction last looked
    entry *older = nullptr, *newer = nullptr; // in the order of age
    entry *next = nullptr;                    // in an entry_list
};

// A few entries on their way out.
struct entry_list {
    entry *first = nullptr;

    void push(entry *e)
    {
        e->next = first;
        first   = e;
    }
    entry *pop()
    {
        entry *e = first;
        if (e != nullptr) {
            first = e->next;
        }
        return e;
    }
};

// Entries from the one that was added or renewed first to the latest.
class age_list {
public:
    entry *oldest() const { return oldest_; }
    void add(entry *e);
    void remove(entry *e);

private:
    entry *oldest_ = nullptr, *newest_ = nullptr;
};

} // namespace ucx_ib_dmabuf

#endif
