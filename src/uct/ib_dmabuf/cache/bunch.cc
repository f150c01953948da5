// SPDX-License-Identifier: BSD-3-Clause
#include "bunch.h"
#include <algorithm>
#include <new>

namespace ucx_ib_dmabuf {

bunch *bunch::make(uint32_t capacity)
{
    size_t size =
        capacity * (sizeof(atomic<entry *>) + sizeof(atomic<uint32_t>));
    void *memory = operator new(sizeof(bunch) + size, std::nothrow);
    return memory == nullptr ? nullptr : new (memory) bunch(capacity);
}

void bunch::destroy(bunch *b)
{
    steps::release(b);
}

void bunch::append(uint32_t start, entry *e)
{
    uint32_t count = count_.load(std::memory_order_relaxed);
    new (&entries()[count]) atomic<entry *>(e);
    new (&starts()[count]) atomic<uint32_t>(start);
    ++live_;
    count_.store(count + 1, std::memory_order_release);
}

bool bunch::insert(uint32_t start, entry *e)
{
    uint32_t count = count_.load(std::memory_order_relaxed);
    uint32_t at    = end_of(start);
    if (at > 0 && starts()[at - 1].load(std::memory_order_relaxed) == start) {
        // What does not overlap and begins at the same place is gone.
        entries()[at - 1].store(e, fence::store_order);
        ++live_;
        return true;
    }
    if (at < count || count == capacity_) {
        return false;
    }
    append(start, e);
    return true;
}

void bunch::erase(uint32_t start, entry *e)
{
    uint32_t at = end_of(start);
    if (at > 0 && entries()[at - 1].load(std::memory_order_relaxed) == e) {
        entries()[at - 1].store(nullptr, fence::store_order);
        --live_;
    }
}

void bunch::fill(const bunch *other, uint32_t start, entry *e)
{
    uint32_t count = other->count_.load(std::memory_order_relaxed);
    bool added     = false;
    for (uint32_t i = 0; i < count; ++i) {
        entry *old = other->entries()[i].load(std::memory_order_relaxed);
        uint32_t old_start = other->starts()[i].load(std::memory_order_relaxed);
        if (!added && old_start > start) {
            append(start, e);
            added = true;
        }
        if (old != nullptr) {
            append(old_start, old);
        }
    }
    if (!added) {
        append(start, e);
    }
}

void bunch::fill(uint32_t start, entry *e, uint32_t other_start, entry *other)
{
    append(std::min(start, other_start), start < other_start ? e : other);
    append(std::max(start, other_start), start < other_start ? other : e);
}

entry *bunch::first_from(uint32_t offset) const
{
    uint32_t count = count_.load(std::memory_order_relaxed);
    for (uint32_t i = offset == 0 ? 0 : end_of(offset - 1); i < count; ++i) {
        entry *e = entries()[i].load(std::memory_order_relaxed);
        if (e != nullptr) {
            return e;
        }
    }
    return nullptr;
}

} // namespace ucx_ib_dmabuf
