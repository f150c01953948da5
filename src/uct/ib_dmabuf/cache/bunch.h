// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_BUNCH_H_
#define UCX_IB_DMABUF_CACHE_BUNCH_H_

#include "entry.h"

namespace ucx_ib_dmabuf {

// The entries that share a granule of the address space, by where they begin
// in it (0: there or earlier). Readers need no lock: an entry that leaves is
// blanked, a new one fills a blank with the same start or goes to the end if
// it starts last; for anything else a new bunch takes the place of this one.
class bunch {
public:
    // nullptr without memory. The capacity is fixed.
    static bunch *make(uint32_t capacity);
    static void destroy(bunch *b);

    // The entry that begins last at or before the offset, if any.
    entry *find(uint32_t offset) const
    {
        uint32_t low = end_of(offset);
        while (low-- > 0) {
            entry *e = entries()[low].load(fence::load_order);
            if (e != nullptr) {
                return e;
            }
        }
        return nullptr;
    }

    // The rest is for the one who has the lock.
    uint32_t live() const { return live_; }
    // The first entry that begins at the offset or later.
    entry *first_from(uint32_t offset) const;
    // False if there is no place for it.
    bool insert(uint32_t start, entry *e);
    void erase(uint32_t start, entry *e);
    // Adds what is live in the other one, and one more; or two. Nobody reads
    // this one yet.
    void fill(const bunch *other, uint32_t start, entry *e);
    void fill(uint32_t start, entry *e, uint32_t other_start, entry *other);

    // For a list of those that nobody writes any more.
    bunch *next() const { return next_; }
    void set_next(bunch *b) { next_ = b; }

private:
    explicit bunch(uint32_t capacity) : capacity_(capacity) {}
    void append(uint32_t start, entry *e);

    // How many begin at or before the offset, blanks too.
    uint32_t end_of(uint32_t offset) const
    {
        uint32_t low = 0, high = count_.load(std::memory_order_acquire);
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (starts()[middle].load(std::memory_order_relaxed) <= offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    // Both arrays follow the object.
    atomic<entry *> *entries() const
    {
        return reinterpret_cast<atomic<entry *> *>(const_cast<bunch *>(this) +
                                                   1);
    }
    atomic<uint32_t> *starts() const
    {
        return reinterpret_cast<atomic<uint32_t> *>(entries() + capacity_);
    }

    atomic<uint32_t> count_{0};
    uint32_t live_ = 0;
    const uint32_t capacity_;
    bunch *next_ = nullptr;
};

} // namespace ucx_ib_dmabuf

#endif
