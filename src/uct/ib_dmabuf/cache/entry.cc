// SPDX-License-Identifier: BSD-3-Clause
#include "entry.h"
#include <cstdio>
#include <cstdlib>
#include <new>

namespace ucx_ib_dmabuf {

namespace entries {

entry_block *blocks[max_blocks];

namespace {

mutex lock;
uint32_t block_count = 0;
uint32_t first_ours  = 0;         // the blocks below are the parent's
uint16_t free_blocks[max_blocks]; // given back by caches that are gone
uint32_t free_count = 0;

} // namespace

#if ENABLE_ASSERT
void check_taken(const entry *e)
{
    ++links(e).checked_uses;
}

void check_given_back(const entry *e)
{
    if (links(e).checked_uses-- <= 0) {
        fprintf(stderr,
                "ib_dmabuf cache: the region at 0x%zx (%zu bytes) was given "
                "back more often than taken\n",
                static_cast<size_t>(e->address), e->length);
        abort();
    }
}
#endif

bool ours(const entry *e)
{
    return (e->id >> block_shift) >= first_ours;
}

bool pool::grow()
{
    std::lock_guard<mutex> locked(lock);
    uint32_t number;
    if (free_count > 0) {
        number = free_blocks[--free_count];
    } else if (block_count < max_blocks) {
        number         = block_count;
        blocks[number] = new (std::nothrow) entry_block;
        if (blocks[number] == nullptr) {
            return false;
        }
        ++block_count;
    } else {
        return false;
    }
    owned_[count_++] = static_cast<uint16_t>(number);
    // Lowest first; the very first entry of all is never used: 0 means none.
    for (uint32_t i = block_size; i-- > (number == 0 ? 1 : 0);) {
        entry *e            = &blocks[number]->entries[i];
        e->id               = (number << block_shift) + i;
        links(e).extra_uses = 0;
#if ENABLE_ASSERT
        links(e).checked_uses = 0;
#endif
        give(e);
    }
    return true;
}

entry *pool::take()
{
    if (free_ == 0 && !grow()) {
        return nullptr;
    }
    entry *e   = at(free_);
    auto &mine = links(e);
    free_      = mine.newer;
    mine.older = mine.newer = 0;
    steps::reused(e);
    e->marks   = 0;
    e->claimed = false;
    return e;
}

void pool::give(entry *e)
{
    steps::reclaimed(e);
    links(e).newer = free_;
    free_          = e->id;
}

void pool::forget()
{
    free_ = count_ = 0;
}

pool::~pool()
{
    std::lock_guard<mutex> locked(lock);
    for (uint32_t i = 0; i < count_; ++i) {
        threads::clear(owned_[i] * block_size, block_size);
        free_blocks[free_count++] = owned_[i];
    }
}

void lock_for_fork()
{
    lock.lock();
}

void unlock_after_fork(bool child)
{
    if (child) {
        first_ours = block_count;
        free_count = 0;
    }
    lock.unlock();
}

} // namespace entries

void age_list::add(entry *e)
{
    auto &mine = entries::links(e);
    mine.older = newest_;
    mine.newer = 0;
    ++size_;
    if (newest_ != 0) {
        entries::links(newest()).newer = e->id;
    } else {
        oldest_ = e->id;
    }
    newest_ = e->id;
}

void age_list::remove(entry *e)
{
    auto &mine   = entries::links(e);
    entry *older = entries::at(mine.older), *newer = entries::at(mine.newer);
    (older != nullptr ? entries::links(older).newer : oldest_) = mine.newer;
    (newer != nullptr ? entries::links(newer).older : newest_) = mine.older;
    mine.older = mine.newer = 0;
    --size_;
}

} // namespace ucx_ib_dmabuf
