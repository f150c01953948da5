// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../cache/cache.h"
#include <array>
#include <mutex>

namespace ucx_ib_dmabuf {

class nic;

// The cache's NICs, by their devices: each context of the process has a memory
// domain of its own for a device. Thread-safe.
class open_nics {
public:
    explicit open_nics(cache &all);

    cache::nic_id attach(nic &device);
    void detach(cache::nic_id id) noexcept;

    // All that is registered with the device leaves the cache (cache::drop). No
    // lock is held over that: who detaches one of them meanwhile waits in the
    // cache. Needs no memory.
    void drop(const char *device) noexcept;

private:
    bool is_of(cache::nic_id id, const char *device) const;

    inline static std::mutex mutex_; // of all, for forks
    cache &cache_;
    // The last one: the cache had no place for it.
    std::array<const nic *, max_nics + 1> all_{};
};

} // namespace ucx_ib_dmabuf
