// SPDX-License-Identifier: BSD-3-Clause
#include "open_nics.h"
#include "nic.h"
#include <cstring>
#include <uct/ib_dmabuf/fork.h>

namespace ucx_ib_dmabuf {

open_nics::open_nics(rcache &all) : cache_(all)
{
    at_fork<&mutex_>();
}

rcache::nic_id open_nics::attach(nic &device)
{
    const rcache::nic_id id = cache_.attach(device);
    const std::lock_guard<std::mutex> guard(mutex_);
    all_[id] = &device;
    return id;
}

void open_nics::detach(rcache::nic_id id) noexcept
{
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        all_[id] = nullptr;
    }
    cache_.detach(id);
}

bool open_nics::is_of(rcache::nic_id id, const char *device) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return (all_[id] != nullptr) && (strcmp(all_[id]->name(), device) == 0);
}

void open_nics::drop(const char *device) noexcept
{
    for (rcache::nic_id id = 0; id < max_nics; ++id) {
        if (is_of(id, device)) {
            cache_.drop(id);
        }
    }
}

} // namespace ucx_ib_dmabuf
