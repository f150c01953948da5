// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

// Users may keep regions in a cache of theirs, where no use of them is seen.
// What must not be used any more, or stands in the way, is asked back. What
// they keep of other memory they would have to register anew.
namespace ucx_ib_dmabuf {

// The NIC stays until ask_back() is over.
void engine::keep(guard &, kept_regions *result, const cached_region *e)
{
    nic_slot &slot = nics_[e->nic];
    if (slot.kept) {
        slot.busy += !result->nics[e->nic];
        result->where.add(e->bytes);
        result->nics.set(e->nic);
    }
}

kept_regions engine::kept_of(guard &locked, const batch &retired)
{
    kept_regions result;
    for (const cached_region *e : retired) {
        keep(locked, &result, e);
    }
    return result;
}

void engine::ask_back(const kept_regions &kept)
{
    if (kept.nics.none()) {
        return;
    }
    for (nic_id nic = 0; nic < max_nics; ++nic) {
        if (kept.nics[nic]) {
            for (const span &each : kept.where) {
                nics_[nic].nic->let_go(each.lo, each.size());
            }
            guard locked(lock_);
            --nics_[nic].busy;
        }
    }
    changed_.notify_all();
}

// From now on nothing is to be kept, and what was is asked back.
void engine::need_each_use()
{
    if (each_use_.exchange(true)) {
        return;
    }
    kept_regions kept;
    {
        guard locked(lock_);
        for (const cached_region *e : lru_) {
            keep(locked, &kept, e);
        }
    }
    ask_back(kept);
}

} // namespace ucx_ib_dmabuf
