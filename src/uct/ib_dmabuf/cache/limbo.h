// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_LIMBO_H_
#define UCX_IB_DMABUF_CACHE_LIMBO_H_

#include "bunch.h"
#include <array>

namespace ucx_ib_dmabuf {

// Where things wait that have left the index but may still be looked at by a
// thread which was there before: until every thread has been seen outside its
// read section. Many wait for one fence together. Under the cache's lock.
class limbo {
public:
    explicit limbo(entries::pool &pool) : pool_(pool) {}
    ~limbo(); // nobody reads any more
    limbo(const limbo &)            = delete;
    limbo &operator=(const limbo &) = delete;

    void add(entry *e);
    void add(bunch *b);
    // In the child of a fork.
    void forget();

private:
    struct batch {
        entry_list entries;
        bunch *bunches = nullptr;
        unsigned size  = 0;
    };
    // A thread that was reading when the fence was over.
    struct reader {
        const thread_record *who;
        uint32_t section;
    };

    void turn();
    bool readers_left();
    void note_readers();
    void release(batch *what);

    entries::pool &pool_;
    batch fresh_, waiting_;
    std::array<reader, 64> readers_;
    unsigned reader_count_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
