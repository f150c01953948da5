// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <mutex>
#include <uct/ib_dmabuf/rcache/rcache.h>

namespace ucx_ib_dmabuf {

class nic;

// The cache's NICs by device: each UCX context of the process has a memory
// domain of its own for a device. Thread-safe.
class open_nics {
public:
    explicit open_nics(rcache &all);

    rcache::nic_id attach(nic &device);
    void detach(rcache::nic_id id) noexcept;

    // Drops all registrations of the device from the cache (rcache::drop).
    // Holds no lock meanwhile: a thread that detaches a NIC waits in the cache.
    // Allocates nothing.
    void drop(const char *device) noexcept;

private:
    bool is_of(rcache::nic_id id, const char *device) const;

    inline static std::mutex mutex_; // static for at_fork()
    rcache &cache_;
    // The last slot is for NICs that the cache had no slot for.
    std::array<const nic *, max_nics + 1> all_{};
};

} // namespace ucx_ib_dmabuf
