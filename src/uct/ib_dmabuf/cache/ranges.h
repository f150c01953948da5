// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_RANGES_H_
#define UCX_IB_DMABUF_CACHE_RANGES_H_

#include "span.h"
#include <array>

namespace ucx_ib_dmabuf {

// Parts of the address space, of which none touches another, in ascending
// order. Needs no memory: where there are too many, those two are one that are
// nearest to each other, with what is between them.
class ranges {
public:
    static constexpr unsigned max_count = 64;

    const span *begin() const { return all_.data(); }
    const span *end() const { return all_.data() + count_; }

    void add(span added)
    {
        span *at = all_.data();
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
        span *const last = all_.data() + count_;
        if (from == to) {
            std::move_backward(to, last, last + 1);
        } else {
            std::move(to, last, from + 1);
        }
        *from = with;
        count_ += 1;
        count_ -= static_cast<unsigned>(to - from);
    }

    span *nearest_pair()
    {
        const auto gap = [](const span *at) { return at[1].lo - at[0].hi; };
        span *nearest  = all_.data();
        for (span *at = nearest + 1; at + 1 != end(); ++at) {
            nearest = (gap(at) < gap(nearest)) ? at : nearest;
        }
        return nearest;
    }

    std::array<span, max_count + 1> all_;
    unsigned count_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
