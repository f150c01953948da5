// SPDX-License-Identifier: BSD-3-Clause
#include "budget.h"

namespace ucx_ib_dmabuf {

static size_t excess(size_t used, size_t wanted, size_t freed, size_t max)
{
    size_t kept = used > freed ? used - freed : 0;
    if (wanted > max) {
        return SIZE_MAX;
    }
    return kept > max - wanted ? kept - (max - wanted) : 0;
}

amount budget::lacking(int device, amount wanted, amount freed) const
{
    const gpu &limit = devices_.at(device);
    return {excess(limit.bytes, wanted.bytes, freed.bytes, limit.max_bytes),
            excess(regions_, wanted.regions, freed.regions, max_regions_)};
}

bool budget::possible(int device, amount wanted) const
{
    return wanted.bytes <= devices_.at(device).max_bytes &&
           wanted.regions <= max_regions_;
}

void budget::add(int device, amount what)
{
    devices_.at(device).bytes += what.bytes;
    regions_ += what.regions;
}

void budget::remove(int device, amount what)
{
    devices_.at(device).bytes -= what.bytes;
    regions_ -= what.regions;
}

uint64_t budget::bytes() const
{
    uint64_t total = 0;
    for (const auto &[device, limit] : devices_) {
        total += limit.bytes;
    }
    return total;
}

} // namespace ucx_ib_dmabuf
