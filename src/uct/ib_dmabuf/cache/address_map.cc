// SPDX-License-Identifier: BSD-3-Clause
#include "address_map.h"
#include <cstdlib>

namespace ucx_ib_dmabuf {

constexpr uint32_t first_capacity = 4;

// Zeroed memory is a valid leaf or tree, and untouched pages of it cost
// nothing.
template <typename T>
static T *zeroed()
{
    return static_cast<T *>(calloc(1, sizeof(T)));
}

static uint32_t start_in(uintptr_t granule, const entry *e)
{
    return e->bytes.lo < granule ? 0
                                 : static_cast<uint32_t>(e->bytes.lo - granule);
}

address_map::tree address_map::no_tree;

void address_map::destroy(tree *t)
{
    for (auto &each : t->leaves) {
        leaf *l = each;
        for (size_t i = 0; l != nullptr && i <= level_mask; ++i) {
            if (is_bunch(l->slots[i])) {
                bunch::destroy(as_bunch(l->slots[i]));
            }
        }
        free(l);
    }
    free(t);
}

void address_map::clear()
{
    tree *t = trees_;
    forget();
    while (t != nullptr) {
        tree *next = t->next;
        destroy(t);
        t = next;
    }
}

void address_map::forget()
{
    trees_ = nullptr;
    low_   = &no_tree;
}

address_map::tree *address_map::find_tree(uintptr_t address) const
{
    tree *t = trees_.load(std::memory_order_acquire);
    while (t != nullptr && t->number != address >> tree_shift) {
        t = t->next;
    }
    return t == nullptr ? &no_tree : t;
}

atomic<uintptr_t> *address_map::find_slot(uintptr_t address) const
{
    leaf *l =
        find_tree(address)->leaves[(address >> leaf_shift) & level_mask].load(
            std::memory_order_acquire);
    return l == nullptr ? nullptr
                        : &l->slots[(address >> granule_shift) & level_mask];
}

address_map::tree *address_map::make_tree(uintptr_t address)
{
    tree *t = find_tree(address);
    if (t == &no_tree) {
        t = zeroed<tree>();
        if (t == nullptr) {
            return nullptr;
        }
        t->number = address >> tree_shift;
        t->next   = trees_.load(std::memory_order_relaxed);
        trees_.store(t, std::memory_order_release);
        if (t->number == 0) {
            low_.store(t, std::memory_order_release);
        }
    }
    return t;
}

atomic<uintptr_t> *address_map::make_slot(uintptr_t address)
{
    tree *t = make_tree(address);
    if (t == nullptr) {
        return nullptr;
    }
    auto &place = t->leaves[(address >> leaf_shift) & level_mask];
    if (place.load(std::memory_order_relaxed) == nullptr) {
        place.store(zeroed<leaf>(), std::memory_order_release);
    }
    return find_slot(address);
}

bool address_map::prepare(span range)
{
    constexpr uintptr_t step = uintptr_t{1} << leaf_shift;
    for (uintptr_t at = range.lo;; at = (at & ~(step - 1)) + step) {
        if (make_slot(at) == nullptr) {
            return false;
        }
        if (range.hi - 1 - (at & ~(step - 1)) < step) {
            return true;
        }
    }
}

bool address_map::insert_at(uintptr_t address, entry *e, limbo *gone)
{
    atomic<uintptr_t> *slot = find_slot(address);
    uintptr_t granule       = address & ~granule_mask;
    uintptr_t value         = slot->load(std::memory_order_relaxed);
    uint32_t start          = start_in(granule, e);
    bunch *old              = is_bunch(value) ? as_bunch(value) : nullptr;
    if (value == 0) {
        slot->store(reinterpret_cast<uintptr_t>(e), fence::store_order);
        return true;
    }
    if (old != nullptr && old->insert(start, e)) {
        return true;
    }
    uint32_t live     = old != nullptr ? old->live() : 1;
    uint32_t capacity = first_capacity;
    while (capacity <= live) {
        capacity *= 2;
    }
    bunch *larger = bunch::make(capacity);
    if (larger == nullptr) {
        return false;
    }
    if (old != nullptr) {
        larger->fill(old, start, e);
    } else {
        auto *other = reinterpret_cast<entry *>(value);
        larger->fill(start_in(granule, other), other, start, e);
    }
    slot->store(reinterpret_cast<uintptr_t>(larger) + bunch_tag,
                fence::store_order);
    if (old != nullptr) {
        gone->add(old);
    }
    return true;
}

// Only the first and the last granule can be shared, so only these can fail.
bool address_map::insert(entry *e, limbo *gone)
{
    uintptr_t lo = e->bytes.lo, last = e->bytes.hi - 1;
    if (!prepare(e->bytes) || !insert_at(lo, e, gone)) {
        return false;
    }
    if ((lo ^ last) >> granule_shift == 0) {
        return true;
    }
    if (!insert_at(last, e, gone)) {
        erase_at(lo, e, gone);
        return false;
    }
    for (uintptr_t at = (lo | granule_mask) + 1; at < (last & ~granule_mask);
         at += granule_mask + 1) {
        find_slot(at)->store(reinterpret_cast<uintptr_t>(e),
                             fence::store_order);
    }
    return true;
}

void address_map::erase_at(uintptr_t address, entry *e, limbo *gone)
{
    atomic<uintptr_t> *slot = find_slot(address);
    uintptr_t value         = slot->load(std::memory_order_relaxed);
    bunch *all              = is_bunch(value) ? as_bunch(value) : nullptr;
    if (all != nullptr) {
        all->erase(start_in(address & ~granule_mask, e), e);
        if (all->live() > 0) {
            return;
        }
    }
    if (LEFT_OUT(slot_first) && all != nullptr) {
        gone->add(all);
        all = nullptr;
    }
    slot->store(0, fence::store_order);
    // Last: the limbo may free at once what it is given.
    if (all != nullptr) {
        gone->add(all);
    }
}

void address_map::erase(entry *e, limbo *gone)
{
    uintptr_t at = e->bytes.lo, last = e->bytes.hi - 1;
    for (;;) {
        erase_at(at, e, gone);
        if ((at ^ last) >> granule_shift == 0) {
            return;
        }
        at = (at | granule_mask) + 1;
    }
}

// The address itself if there is a leaf for it, else the next one for which
// there may be one; 0 if there is none.
uintptr_t address_map::skip_empty(uintptr_t address) const
{
    uintptr_t best = 0;
    for (tree *t = trees_.load(std::memory_order_relaxed); t != nullptr;
         t       = t->next) {
        uintptr_t number = address >> tree_shift;
        if (t->number < number) {
            continue;
        }
        size_t i =
            t->number == number ? (address >> leaf_shift) & level_mask : 0;
        while (i <= level_mask &&
               t->leaves[i].load(std::memory_order_relaxed) == nullptr) {
            ++i;
        }
        if (i > level_mask) {
            continue;
        }
        uintptr_t at = (t->number << tree_shift) | (i << leaf_shift);
        at           = std::max(at, address);
        best         = best == 0 ? at : std::min(best, at);
    }
    return best;
}

entry *address_map::first_overlap(span range) const
{
    uintptr_t at = range.lo;
    while (at < range.hi) {
        atomic<uintptr_t> *slot = find_slot(at);
        if (slot == nullptr) {
            at = skip_empty(at);
            if (at == 0) {
                return nullptr;
            }
            continue;
        }
        uintptr_t value = slot->load(std::memory_order_relaxed);
        entry *e        = near(value, at);
        if (e != nullptr && e->bytes.overlaps({at, range.hi})) {
            return e;
        }
        if (is_bunch(value)) {
            e = as_bunch(value)->first_from(at & granule_mask);
            if (e != nullptr) {
                return e->bytes.overlaps(range) ? e : nullptr;
            }
        }
        at = (at | granule_mask) + 1;
        if (at == 0) {
            return nullptr;
        }
    }
    return nullptr;
}

} // namespace ucx_ib_dmabuf
