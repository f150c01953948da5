// SPDX-License-Identifier: BSD-3-Clause
#include "cached_region.h"
#include <sys/mman.h>

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

// Of many regions the pages are large: a random hit would wait for page tables.
static std::align_val_t alignment_of(uint32_t count)
{
    constexpr size_t large_page = size_t{2} << 20;
    return std::align_val_t(count * sizeof(cached_region) < large_page
                                ? alignof(cached_region)
                                : large_page);
}

static cached_region *make_regions(uint32_t count)
{
    size_t size  = count * sizeof(cached_region);
    void *memory = operator new(size, alignment_of(count), std::nothrow);
    if (memory == nullptr) {
        return nullptr;
    }
    if (alignment_of(count) != std::align_val_t(alignof(cached_region))) {
        madvise(memory, size, MADV_HUGEPAGE);
    }
    return new (memory) cached_region[count];
}

region_pool::block::~block()
{
    operator delete(regions, alignment_of(count));
    delete[] rests;
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
    const uint32_t count =
        std::min(std::clamp(last_id_, first_block, largest_block),
                 references::max_objects - last_id_);
    std::unique_ptr<block> more(count == 0 ? nullptr
                                           : new (std::nothrow) block);
    if (more == nullptr) {
        return false;
    }
    more->count   = count;
    more->regions = make_regions(count);
    more->rests   = new (std::nothrow) region_rest[count];
    if (more->regions == nullptr || more->rests == nullptr) {
        return false;
    }
    for (uint32_t i = count; i-- > 0;) {
        more->regions[i].rest = &more->rests[i];
        more->regions[i].id   = last_id_ + i;
        free_.push(&more->regions[i]);
    }
    last_id_ += count;
    more->next = blocks_;
    blocks_    = more.release();
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
    e->revoked      = false;
    e->ended        = false;
    e->why          = cause::none;
    free_.push(e);
}

} // namespace ucx_ib_dmabuf
