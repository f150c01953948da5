// SPDX-License-Identifier: BSD-3-Clause
#include "address_index.h"
#include <cstdlib>

namespace ucx_ib_dmabuf {

// Zeroed memory is a valid leaf or tree, and untouched pages of it cost
// nothing.
template <typename T>
static T *zeroed()
{
    return static_cast<T *>(calloc(1, sizeof(T)));
}

void address_index::clear()
{
    steps::touches(steps::access::changes);
    while (tree *t = trees_) {
        for (leaf *l : t->leaves) {
            for (size_t i = 0; l != nullptr && i <= level_mask; ++i) {
                if (is_bucket(l->slots[i])) {
                    bucket::destroy(as_bucket(l->slots[i]));
                }
            }
            free(l);
        }
        trees_ = t->next;
        free(t);
    }
}

uintptr_t *address_index::make_slot(uintptr_t address)
{
    tree *t = find_tree(address);
    if (t == nullptr) {
        t = zeroed<tree>();
        if (t == nullptr) {
            return nullptr;
        }
        t->number = address >> tree_shift;
        t->next   = trees_;
        trees_    = t;
    }
    leaf *&l = t->leaves[(address >> leaf_shift) & level_mask];
    if (l == nullptr) {
        l = zeroed<leaf>();
    }
    return l == nullptr ? nullptr
                        : &l->slots[(address >> granule_shift) & level_mask];
}

bool address_index::insert_at(uintptr_t address, cached_region *e)
{
    uintptr_t *slot = make_slot(address);
    if (slot == nullptr) {
        return false;
    }
    if (*slot == 0) {
        *slot = reinterpret_cast<uintptr_t>(e);
        return true;
    }
    bucket *into = is_bucket(*slot) ? as_bucket(*slot) : bucket::make();
    if (into != nullptr && into->size() == 0) {
        into->insert(reinterpret_cast<cached_region *>(*slot));
        *slot = reinterpret_cast<uintptr_t>(into) + bucket_tag;
    }
    into = into == nullptr ? nullptr : into->insert(e);
    if (into == nullptr) {
        return false;
    }
    *slot = reinterpret_cast<uintptr_t>(into) + bucket_tag;
    return true;
}

bool address_index::insert(cached_region *e)
{
    steps::touches(steps::access::changes);
    uintptr_t last = e->bytes.hi - 1;
    for (uintptr_t at = e->bytes.lo;; at = (at | granule_mask) + 1) {
        if (!insert_at(at, e)) {
            erase_up_to(at, e);
            return false;
        }
        if ((at ^ last) >> granule_shift == 0) {
            return true;
        }
    }
}

// A bucket stays one until it is empty.
void address_index::erase_at(uintptr_t address, cached_region *e)
{
    uintptr_t *slot = slot_at(address);
    if (is_bucket(*slot)) {
        bucket *from = as_bucket(*slot);
        from->erase(e);
        if (from->size() > 0) {
            return;
        }
        bucket::destroy(from);
    }
    *slot = 0;
}

// From the granules up to the one of that address, without it.
void address_index::erase_up_to(uintptr_t end, cached_region *e)
{
    for (uintptr_t at = e->bytes.lo; (at ^ end) >> granule_shift != 0;
         at           = (at | granule_mask) + 1) {
        erase_at(at, e);
    }
}

void address_index::erase(cached_region *e)
{
    steps::touches(steps::access::changes);
    erase_up_to(e->bytes.hi - 1, e);
    erase_at(e->bytes.hi - 1, e);
}

// The address itself if there is a leaf for it, else the next one for which
// there may be one; 0 if there is none.
uintptr_t address_index::skip_empty(uintptr_t address) const
{
    uintptr_t best = 0;
    for (tree *t = trees_; t != nullptr; t = t->next) {
        uintptr_t number = address >> tree_shift;
        if (t->number < number) {
            continue;
        }
        size_t i =
            t->number == number ? (address >> leaf_shift) & level_mask : 0;
        while (i <= level_mask && t->leaves[i] == nullptr) {
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

// The region that begins first at `least` or later and serves any of the range,
// looked for from an address on at which no such one has ended.
cached_region *address_index::scan(span range, uintptr_t from,
                                   uintptr_t least) const
{
    steps::touches(steps::access::reads);
    for (uintptr_t at = from; at < range.hi; at = (at | granule_mask) + 1) {
        uintptr_t *slot = slot_at(at);
        if (slot == nullptr) {
            at   = skip_empty(at);
            slot = at == 0 ? nullptr : slot_at(at);
        }
        if (slot == nullptr) {
            return nullptr;
        }
        auto *e = is_bucket(*slot) ? as_bucket(*slot)->first(least, range.lo)
                                   : reinterpret_cast<cached_region *>(*slot);
        if (e != nullptr && e->bytes.lo >= least && e->bytes.overlaps(range)) {
            return e;
        }
        if ((at | granule_mask) == UINTPTR_MAX) {
            break;
        }
    }
    return nullptr;
}

} // namespace ucx_ib_dmabuf
