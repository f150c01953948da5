// SPDX-License-Identifier: BSD-3-Clause
#include "cached_region.h"

namespace ucx_ib_dmabuf {

void region_list::add(cached_region *e)
{
    e->older                                        = newest_;
    e->newer                                        = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = e;
    newest_                                         = e;
    ++size_;
}

void region_list::remove(cached_region *e)
{
    (e->older != nullptr ? e->older->newer : oldest_) = e->newer;
    (e->newer != nullptr ? e->newer->older : newest_) = e->older;
    --size_;
}

region_pool::~region_pool()
{
    while (block *gone = blocks_) {
        blocks_ = gone->next;
        delete gone;
    }
}

bool region_pool::grow()
{
    if (last_id_ > references::max_objects - block_size) {
        return false;
    }
    auto *more = new (std::nothrow) block;
    if (more == nullptr) {
        return false;
    }
    more->next = blocks_;
    blocks_    = more;
    for (unsigned i = block_size; i-- > 0;) {
        more->regions[i].id = last_id_ + i;
        free_.push(&more->regions[i]);
    }
    last_id_ += block_size;
    return true;
}

cached_region *region_pool::take()
{
    return free_.empty() && !grow() ? nullptr : free_.pop();
}

// Its references stay as they are: they add up to nothing, but some threads may
// have counted below zero.
void region_pool::give(cached_region *e)
{
    e->memory  = {};
    e->retired = false;
    e->claimed = false;
    e->why     = cause::none;
    free_.push(e);
}

} // namespace ucx_ib_dmabuf
