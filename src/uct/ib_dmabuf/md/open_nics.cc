// SPDX-License-Identifier: BSD-3-Clause
#include "open_nics.h"
#include "../fork_mutex.h"
#include "nic.h"
#include <cstring>
#include <new>

namespace ucx_ib_dmabuf {

open_nics::open_nics(cache &all) : cache_(all)
{
    keep_from_forks<mutex_>();
}

cache::nic_id open_nics::attach(nic &device)
{
    const cache::nic_id id = cache_.attach(device);
    try {
        const std::lock_guard<std::mutex> guard(mutex_);
        all_[id] = &device;
    } catch (const std::bad_alloc &) {
        cache_.detach(id);
        throw;
    }
    return id;
}

void open_nics::detach(cache::nic_id id) noexcept
{
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        all_.erase(id);
    }
    cache_.detach(id);
}

std::optional<cache::nic_id>
open_nics::next(const char *device, std::optional<cache::nic_id> after) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    auto at = after ? all_.upper_bound(*after) : all_.begin();
    while ((at != all_.end()) && (strcmp(at->second->name(), device) != 0)) {
        ++at;
    }
    return (at == all_.end()) ? std::nullopt : std::optional(at->first);
}

void open_nics::drop(const char *device) noexcept
{
    for (auto id = next(device, {}); id; id = next(device, id)) {
        cache_.drop(*id);
    }
}

} // namespace ucx_ib_dmabuf
