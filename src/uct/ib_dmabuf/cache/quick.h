// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_QUICK_H_
#define UCX_IB_DMABUF_CACHE_QUICK_H_

#include "engine.h"

// What of the cache is inline where it is used: a hit takes so little that
// calls and what they save would be half of it.
namespace ucx_ib_dmabuf {

[[gnu::always_inline]] inline const region *
cache::find_quickly(nic_id nic, uintptr_t address, size_t length,
                    bool *sure) noexcept
{
    *sure = false;
    return quick_ != nullptr ? quick_->find_quickly(nic, address, length, sure)
                             : nullptr;
}

[[gnu::always_inline]] inline bool
cache::put_quickly(const region *used) noexcept
{
    // Regions are only ever made as these, which are not const.
    return quick_ != nullptr &&
           quick_->put_quickly(
               static_cast<cached_region *>(const_cast<region *>(used)));
}

} // namespace ucx_ib_dmabuf

#endif
