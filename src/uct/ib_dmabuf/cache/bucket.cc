// SPDX-License-Identifier: BSD-3-Clause
#include "bucket.h"
#include <cstdlib>

namespace ucx_ib_dmabuf {

bucket *bucket::make(uint32_t capacity)
{
    void *memory = malloc(sizeof(bucket) + capacity * sizeof(slot));
    if (memory == nullptr) {
        return nullptr;
    }
    auto *made      = new (memory) bucket;
    made->capacity_ = capacity;
    return made;
}

void bucket::destroy(bucket *b)
{
    free(b);
}

bucket *bucket::insert(cached_region *e)
{
    bucket *into = this;
    if (size_ == capacity_) {
        into = make(2 * capacity_);
        if (into == nullptr) {
            return nullptr;
        }
        into->size_ = size_;
        std::copy(slots(), slots() + size_, into->slots());
        destroy(this);
    }
    slot *all   = into->slots();
    uint32_t at = into->end_of(e->bytes.lo);
    std::copy_backward(all + at, all + into->size_, all + into->size_ + 1);
    all[at] = {e->bytes.lo, e};
    ++into->size_;
    return into;
}

void bucket::erase(cached_region *e)
{
    slot *all   = slots();
    uint32_t at = end_of(e->bytes.lo) - 1;
    std::copy(all + at + 1, all + size_, all + at);
    --size_;
}

} // namespace ucx_ib_dmabuf
