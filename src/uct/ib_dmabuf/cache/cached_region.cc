// SPDX-License-Identifier: BSD-3-Clause
#include "cached_region.h"

namespace ucx_ib_dmabuf {

constexpr uint32_t first_block   = steps::size(64, 8);
constexpr uint32_t largest_block = 1 << 15;

void region_list::add(cached_region *e)
{
    e->rest->older                                        = newest_;
    e->rest->newer                                        = nullptr;
    (newest_ != nullptr ? newest_->rest->newer : oldest_) = e;
    newest_                                               = e;
    ++size_;
}

void region_list::remove(cached_region *e)
{
    cached_region *older = e->rest->older, *newer = e->rest->newer;
    (older != nullptr ? older->rest->newer : oldest_) = newer;
    (newer != nullptr ? newer->rest->older : newest_) = older;
    --size_;
}

region_pool::~region_pool()
{
    while (block *gone = blocks_) {
        blocks_ = gone->next;
        delete[] gone->regions;
        delete[] gone->rests;
        delete gone;
    }
}

bool region_pool::grow()
{
    const uint32_t count =
        std::min(std::clamp(last_id_, first_block, largest_block),
                 references::max_objects - last_id_);
    if (count == 0) {
        return false;
    }
    auto *more = new (std::nothrow) block{};
    if (more != nullptr) {
        more->regions = new (std::nothrow) cached_region[count];
        more->rests   = new (std::nothrow) region_rest[count];
    }
    if (more == nullptr || more->regions == nullptr || more->rests == nullptr) {
        if (more != nullptr) {
            delete[] more->regions;
            delete[] more->rests;
        }
        delete more;
        return false;
    }
    more->next = blocks_;
    blocks_    = more;
    for (uint32_t i = count; i-- > 0;) {
        more->regions[i].rest = &more->rests[i];
        more->regions[i].id   = last_id_ + i;
        free_.push(&more->regions[i]);
    }
    last_id_ += count;
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
    e->rest->memory = {};
    e->retired      = false;
    e->claimed      = false;
    e->why          = cause::none;
    free_.push(e);
}

} // namespace ucx_ib_dmabuf
