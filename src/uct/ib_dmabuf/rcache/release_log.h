// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <uct/ib_dmabuf/gpu/address_range.h>

namespace ucx_ib_dmabuf {

// The latest releases of memory. A thread notes the time, asks the exporter
// about an address, and then checks whether the answer may be outdated. now()
// needs no lock; everything else is under the cache's lock.
class release_log {
public:
    uint64_t now() const { return count_.load(std::memory_order_acquire); }

    void add(address_range released)
    {
        uint64_t count             = count_.load(std::memory_order_relaxed);
        recent_[count % max_known] = released;
        count_.store(count + 1, std::memory_order_release);
    }

    // Whether memory in the range may have been released after that time. Also
    // true if too much was released since to know.
    bool released_since(uint64_t time, address_range range) const
    {
        uint64_t count = count_.load(std::memory_order_relaxed);
        if (count - time > max_known) {
            return true;
        }
        for (; time < count; ++time) {
            if (recent_[time % max_known].overlaps(range)) {
                return true;
            }
        }
        return false;
    }

private:
    static constexpr uint64_t max_known = 256;

    std::atomic<uint64_t> count_{0};
    std::array<address_range, max_known> recent_;
};

} // namespace ucx_ib_dmabuf
