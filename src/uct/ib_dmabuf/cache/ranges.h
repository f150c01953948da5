// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_RANGES_H_
#define UCX_IB_DMABUF_CACHE_RANGES_H_

#include "span.h"

namespace ucx_ib_dmabuf {

// Parts of the address space, of which none touches another, in ascending
// order. Needs no memory: where there are too many, those two are one that are
// nearest to each other, with what is between them.
class ranges {
public:
    static constexpr unsigned max_count = 16;

    ranges() {}
    const span *begin() const { return all; }
    const span *end() const { return all + count_; }

    void add(span added)
    {
        span *at = all;
        while (at != end() && at->hi < added.lo) {
            ++at;
        }
        span *behind = at;
        while (behind != end() && behind->lo <= added.hi) {
            added = hull(added, *behind++);
        }
        replace(at, behind, added);
        if (count_ > max_count) {
            span *nearest = nearest_pair();
            replace(nearest, nearest + 2, hull(nearest[0], nearest[1]));
        }
    }

private:
    // [from, to) becomes one.
    void replace(span *from, span *to, span with)
    {
        span *const last = all + count_;
        if (from == to) {
            std::move_backward(to, last, last + 1);
        } else if (to != from + 1) {
            std::move(to, last, from + 1);
        }
        *from = with;
        count_ += 1;
        count_ -= static_cast<unsigned>(to - from);
    }

    span *nearest_pair()
    {
        const auto gap = [](const span *at) { return at[1].lo - at[0].hi; };
        span *nearest  = all;
        for (span *at = nearest + 1; at + 1 != end(); ++at) {
            nearest = (gap(at) < gap(nearest)) ? at : nearest;
        }
        return nearest;
    }

    // Not set to anything: each event of memory has one, mostly empty.
    union {
        span all[max_count + 1];
    };
    unsigned count_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
