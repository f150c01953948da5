// SPDX-License-Identifier: BSD-3-Clause
#include "model.h"
#include <common/elsewhere.h>

using ucx_ib_dmabuf::region;

// A child of fork starts with an empty cache. The parent's regions have no
// effect in it, and its own registrations work.
void model::in_child()
{
    expect(counters().regions == 0, "the child has regions");
    uint64_t before   = nics_[0]->deregistered + nics_[1]->deregistered;
    const region *got = nullptr;
    expect(cache_->get(0, places_[0].base, 1, &got) == UCS_ERR_NO_DEVICE,
           "the child registers with the parent's NIC");
    gpu_.alloc(uintptr_t{5} << 40, 1 << 20);
    fakes::nic own(gpu_);
    auto id = cache_->attach(own);
    expect(id >= nic_count, "the parent's NIC was replaced");
    expect(cache_->get(id, uintptr_t{5} << 40, 7, &got) == UCS_OK,
           "the child cannot register");
    for (const use &each : uses_) {
        cache_->put(each.region);
    }
    cache_->invalidate(0, SIZE_MAX);
    cache_->put(got);
    cache_->flush();
    expect(own.live() == 0, "the child's region was not deregistered");
    cache_.reset();
    expect(nics_[0]->deregistered + nics_[1]->deregistered == before,
           "the child deregistered the parent's regions");
}

void model::fork_child()
{
    disarm();
    cache_->flush(); // the fakes do not support a fork during their calls
    const bool good = ::in_child([this] {
        in_child();
        return true;
    });
    expect(good, "the child failed");
}
