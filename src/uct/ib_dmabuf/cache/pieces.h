// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_PIECES_H_
#define UCX_IB_DMABUF_CACHE_PIECES_H_

#include "span.h"
#include <memory>
#include <new>
#include <utility>

namespace ucx_ib_dmabuf {

// What memory is made of, in the order of the addresses: one allocation, or
// VMM segments that touch.
class pieces {
public:
    struct piece {
        uintptr_t base    = 0;
        uint64_t identity = 0;
    };

    pieces()                          = default;
    ~pieces()                         = default;
    pieces(const pieces &)            = delete;
    pieces &operator=(const pieces &) = delete;
    pieces(pieces &&other) noexcept { *this = std::move(other); }
    pieces &operator=(pieces &&other) noexcept
    {
        first_ = other.first_;
        count_ = std::exchange(other.count_, 0);
        room_  = std::exchange(other.room_, 1);
        rest_  = std::move(other.rest_);
        return *this;
    }

    const piece *begin() const { return rest_ ? rest_.get() : &first_; }
    const piece *end() const { return begin() + count_; }

    // False without memory. One needs none.
    bool append(piece last)
    {
        if (count_ == room_) {
            auto *larger = new (std::nothrow) piece[size_t{room_} * 2];
            if (larger == nullptr) {
                return false;
            }
            std::copy(begin(), end(), larger);
            rest_.reset(larger);
            room_ *= 2;
        }
        data()[count_++] = last;
        return true;
    }
    void reverse() { std::reverse(data(), data() + count_); }
    // A copy of those that the range touches. False without memory.
    bool copy_to(pieces *out, span range) const
    {
        for (const piece *each = first_in(range); each != end(); ++each) {
            if (each->base < range.hi && !out->append(*each)) {
                return false;
            }
        }
        return true;
    }
    // The last one that begins at or before the range, or the first of all.
    const piece *first_in(span range) const
    {
        const piece *after =
            std::upper_bound(begin(), end(), range.lo,
                             [](uintptr_t at, auto &p) { return at < p.base; });
        return after == begin() ? after : after - 1;
    }
    uint64_t identity_at(uintptr_t address) const
    {
        return first_in({address, address})->identity;
    }

private:
    piece *data() { return rest_ ? rest_.get() : &first_; }

    piece first_;
    uint32_t count_ = 0, room_ = 1;
    std::unique_ptr<piece[]> rest_;
};

} // namespace ucx_ib_dmabuf

#endif
