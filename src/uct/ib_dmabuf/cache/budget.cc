// SPDX-License-Identifier: BSD-3-Clause
#include "budget.h"

namespace ucx_ib_dmabuf {

// What must go from `used` before `wanted` fits; all of it where it never does.
static size_t excess(size_t used, size_t wanted, size_t max)
{
    if (wanted > max) {
        return SIZE_MAX;
    }
    return used > max - wanted ? used - (max - wanted) : 0;
}

amount budget::lacking(int device, amount wanted) const
{
    const gpu &here = gpus_[place(device)];
    return {excess(here.bytes, wanted.bytes, here.max_bytes),
            excess(regions_, wanted.regions, max_regions_)};
}

bool budget::possible(int device, amount wanted) const
{
    return wanted.bytes <= gpus_[place(device)].max_bytes &&
           wanted.regions <= max_regions_;
}

void budget::map(int device, size_t bytes)
{
    gpus_[place(device)].bytes += bytes;
    mapped_ += bytes;
}

void budget::unmap(int device, size_t bytes)
{
    gpus_[place(device)].bytes -= bytes;
    mapped_ -= bytes;
}

void budget::add(unsigned nic, size_t bytes)
{
    nics_[nic] += bytes;
    bytes_ += bytes;
    ++regions_;
}

void budget::remove(unsigned nic, size_t bytes)
{
    nics_[nic] -= bytes;
    bytes_ -= bytes;
    --regions_;
}

void budget::reset()
{
    for (gpu &each : gpus_) {
        each.bytes = 0;
    }
    nics_    = {};
    regions_ = 0;
    bytes_   = 0;
    mapped_  = 0;
}

} // namespace ucx_ib_dmabuf
